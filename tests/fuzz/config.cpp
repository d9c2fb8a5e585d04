// Configuration files: taken or refused with a place and a reason, always the same, and every setting that was taken
// can be written down and set again. The whole input is the file.
#include <algorithm>

#include "config/finish.hpp"
#include "config/load.hpp"
#include "config/settings.hpp"
#include "tests/fuzz/input.hpp"

namespace {

void check_errors(const once::ConfigErrors& errors, std::string_view text) {
  const auto lines = static_cast<int>(std::ranges::count_if(text, [](char c) { return c == '\n' || c == '\r'; })) + 1;
  for (const once::ConfigError& error : errors) {
    ONCE_ASSERT(!error.text.empty() && !once::to_string(error).empty());
    ONCE_ASSERT(error.line >= 0 && error.line <= lines + 1 && error.column >= 0);
  }
}

// What is written down of `from` gives the same in `to`, whatever stood there.
template <class Target>
void check_settings(const once::Settings<Target>& table, const Target& from, Target to) {
  for (const once::Setting<Target>& setting : table) {
    if (setting.shape == once::Shape::map) continue;
    const once::Values values = setting.get(from);
    if (values.empty() || std::ranges::find(values, "") != values.end()) continue;  // not set
    ONCE_ASSERT(setting.set(to, values).has_value());
    ONCE_ASSERT(setting.get(to) == values);
  }
}

}  // namespace

FUZZ(bytes) {
  auto config = once::parse(bytes, "once.yaml");
  const auto again = once::parse(bytes, "once.yaml");
  ONCE_ASSERT(config.has_value() == again.has_value());
  if (!config) {
    ONCE_ASSERT(!config.error().empty() && config.error().size() == again.error().size());
    check_errors(config.error(), bytes);
    return;
  }
  check_settings(once::process_settings(), *config, once::builtin_config());
  check_settings(once::policy_settings(), config->defaults, once::builtin_policy());
  for (const once::Route& route : config->routes) {
    check_settings(once::policy_settings(), route.policy, once::builtin_policy());
    check_settings(once::route_settings(), route, once::Route());
  }
  const once::Checked checked = once::check(*config);
  check_errors(checked.errors, bytes);
  check_errors(checked.warnings, bytes);
  ONCE_ASSERT(!config->routes.empty());
}
