#include "config/reference.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/settings.hpp"
#include "config/yaml.hpp"

namespace once::config {

namespace {

constexpr std::size_t comment_width = 110;

void comment(std::string& out, std::string_view indent, std::string_view text) {
  std::string line = fmt::format("{}#", indent);
  for (const std::string_view word : split(text, ' ')) {
    if (line.size() + 1 + word.size() > comment_width) {
      out += line + '\n';
      line = fmt::format("{}#", indent);
    }
    fmt::format_to(std::back_inserter(line), " {}", word);
  }
  out += line + '\n';
}

template <class Target>
std::string yaml_value(const Setting<Target>& setting, const Target& defaults) {
  if (setting.shape == Shape::map) return "{}";
  Values values = setting.get(defaults);
  for (std::string& value : values) value = yaml_scalar(value);
  return show_values(setting.shape, values);
}

// The tables keep the settings of a group together, so the first setting of a group begins its section.
template <class Target>
void yaml_section(std::string& out, std::string indent, const Settings<Target>& settings, const Target& defaults) {
  std::vector<std::string_view> open;
  for (const Setting<Target>& setting : settings) {
    std::vector<std::string_view> groups = split(setting.name, '.');
    const std::string_view name = groups.back();
    groups.pop_back();
    const auto [group, unused] = std::ranges::mismatch(groups, open);
    std::string inner = indent + std::string(2 * static_cast<std::size_t>(group - groups.begin()), ' ');
    for (auto opened = group; opened != groups.end(); ++opened) {
      fmt::format_to(std::back_inserter(out), "{}{}:\n", inner, *opened);
      inner += "  ";
    }
    open = std::move(groups);
    comment(out, inner, setting.help);
    comment(out, inner,
            fmt::format("Expected: {}{}", setting.expected, setting.range.empty() ? "" : ", " + setting.range));
    fmt::format_to(std::back_inserter(out), "{}{}: {}\n", inner, name, yaml_value(setting, defaults));
  }
}

}  // namespace

std::string reference_yaml() {
  const Config config = builtin_config();
  std::string out = "# Every setting of Once with its default. Leave out the settings you do not change.\n\n";
  yaml_section(out, "", process_settings(), config);
  out += "\n# An upstream is a URL, or a map of these settings with at least servers:\n";
  for (const Setting<Upstream>& setting : upstream_settings()) {
    comment(out, "", fmt::format("  {}: {} Expected: {}", setting.name, setting.help, setting.expected));
  }
  out += "\n# The defaults for every route.\ndefaults:\n";
  yaml_section(out, "  ", policy_settings(), config.defaults);
  out +=
      "\n# The first match wins. Without routes there is one for everything. A route may have any setting of defaults, "
      "and:\n";
  for (const Setting<Route>& setting : route_settings()) {
    comment(out, "", fmt::format("  {}: {} Expected: {}", setting.name, setting.help, setting.expected));
  }
  out += R"(# For example:
#   - path: /v1/charges/**
#     methods: [POST]
#     dialect: stripe
#     key: {required: yes}
routes: []
)";
  return out;
}

}  // namespace once::config
