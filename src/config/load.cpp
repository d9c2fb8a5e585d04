#include "config/load.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/settings.hpp"
#include "config/yaml.hpp"

namespace once {

namespace {

using Kind = YamlNode::Kind;

constexpr std::size_t largest_file = std::size_t{1} << 20U;

// Collects errors about one file.
class Report {
 public:
  explicit Report(std::string_view file) : file_(file) {}

  void add(const YamlNode& at, std::string text) { errors_.push_back({file_, at.line, at.column, std::move(text)}); }
  void add(ConfigError error) { errors_.push_back(std::move(error)); }

  Where where(const YamlNode& node) const { return {file_, node.line, node.column}; }
  ConfigErrors& errors() { return errors_; }

 private:
  std::string file_;
  ConfigErrors errors_;
};

// A key with its value, anywhere in a map.
struct Entry {
  std::string name;  // dotted
  const YamlNode& key;
  const YamlNode& value;

  // An absent value stands, for the parser, on the next line.
  const YamlNode& place() const { return value.kind == Kind::nothing ? key : value; }
};

template <class Target>
std::vector<std::string_view> names_of(const Settings<Target>& table) {
  std::vector<std::string_view> names;
  for (const Setting<Target>& setting : table) names.push_back(setting.name);
  return names;
}

template <class Target>
const Setting<Target>* find(const Settings<Target>& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &Setting<Target>::name);
  return found == table.end() ? nullptr : &*found;
}

// Whether `name` is the beginning of the name of some setting: "key" of "key.header".
bool is_group(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view setting) {
    return setting.size() > name.size() && setting.starts_with(name) && setting[name.size()] == '.';
  });
}

// The map laid flat: {key: {header: X}} is key.header. Groups that are not known stay as they are.
void flatten(const YamlNode& map, const std::string& prefix, const std::vector<std::string_view>& names,
             std::vector<Entry>& out, Report& report) {
  for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
    const YamlNode& key = map.children[i];
    const YamlNode& value = map.children[i + 1];
    if (key.kind != Kind::scalar) {
      report.add(key, "expected the name of a setting");
      continue;
    }
    const std::string name = prefix + key.text;
    if (!is_group(names, name)) {
      out.push_back({name, key, value});
    } else if (value.kind == Kind::map) {
      flatten(value, name + ".", names, out, report);
    } else if (value.kind != Kind::nothing) {
      report.add(value, fmt::format("{}: expected a map of settings", name));
    }
  }
}

std::vector<Entry> entries_of(const YamlNode& map, const std::vector<std::string_view>& names, Report& report) {
  std::vector<Entry> all;
  flatten(map, "", names, all, report);
  std::set<std::string, std::less<>> seen;
  std::vector<Entry> unique;
  for (const Entry& entry : all) {
    if (seen.insert(entry.name).second) {
      unique.push_back(entry);
    } else {
      report.add(entry.key, fmt::format("\"{}\" is set twice", entry.name));
    }
  }
  return unique;
}

std::expected<Values, std::string> values_of(const YamlNode& node, Shape shape, std::string_view expected) {
  if (node.kind == Kind::scalar) return Values{node.text};
  if (node.kind == Kind::nothing) return not_expected(expected, "");
  if (shape != Shape::list || node.kind == Kind::map) {
    return std::unexpected(fmt::format("expected {}, got a {}", expected, node.kind == Kind::map ? "map" : "list"));
  }
  Values values;
  for (const YamlNode& item : node.children) {
    if (item.kind != Kind::scalar) return std::unexpected(fmt::format("expected {}", expected));
    values.push_back(item.text);
  }
  return values;
}

// Reads what belongs to a name when it is a map of settings itself.
template <class Target>
using ReadEntry = void (*)(Target& target, const YamlNode& key, const YamlNode& map, Report& report);

// name: URL, name: URL …
template <class Target>
void apply_map(const Setting<Target>& setting, Target& target, const Entry& entry, Report& report,
               ReadEntry<Target> read_entry = nullptr) {
  if (entry.value.kind == Kind::nothing) return;
  if (entry.value.kind != Kind::map) {
    report.add(entry.value, fmt::format("{}: expected {}", setting.name, setting.expected));
    return;
  }
  std::set<std::string, std::less<>> seen;
  for (std::size_t i = 0; i + 1 < entry.value.children.size(); i += 2) {
    const YamlNode& key = entry.value.children[i];
    const YamlNode& value = entry.value.children[i + 1];
    const std::string name = fmt::format("{}.{}", setting.name, key.text);
    if (!seen.insert(key.text).second) {
      report.add(key, fmt::format("\"{}\" is set twice", name));
    } else if (value.kind == Kind::map && read_entry != nullptr) {
      read_entry(target, key, value, report);
    } else if (value.kind == Kind::list || value.kind == Kind::map) {
      report.add(value, fmt::format("{}: expected {}", setting.name, setting.expected));
    } else if (const auto done = setting.set(target, {key.text, value.text}); !done) {
      report.add(value.kind == Kind::nothing ? key : value, fmt::format("{}: {}", name, done.error()));
    }
  }
}

template <class Target>
void apply(const Setting<Target>& setting, Target& target, const Entry& entry, Report& report) {
  if (setting.shape == Shape::map) {
    apply_map(setting, target, entry, report);
    return;
  }
  const auto values = values_of(entry.value, setting.shape, setting.expected);
  if (!values) {
    report.add(entry.place(), fmt::format("{}: {}", setting.name, values.error()));
  } else if (const auto done = setting.set(target, *values); !done) {
    report.add(entry.place(), fmt::format("{}: {}", setting.name, done.error()));
  }
}

std::string unknown(std::string_view name, const std::vector<std::string_view>& names) {
  return fmt::format("unknown setting \"{}\"{}", name, suggestion(name, names));
}

// NAME: {servers: […], …}
void read_upstream(Config& config, const YamlNode& key, const YamlNode& map, Report& report) {
  Upstream upstream;
  upstream.name = key.text;
  upstream.where = report.where(key);
  const auto names = names_of(upstream_settings());
  const std::vector<Entry> entries = entries_of(map, names, report);
  for (const Entry& entry : entries) {
    if (const Setting<Upstream>* setting = find(upstream_settings(), entry.name)) {
      apply(*setting, upstream, entry, report);
    } else {
      report.add(entry.key, unknown(entry.name, names));
    }
  }
  if (std::ranges::find(entries, "servers", &Entry::name) == entries.end()) {
    report.add(key, fmt::format("upstreams.{}: it has no servers", key.text));
  }
  if (const auto done = add_upstream(config, std::move(upstream)); !done) {
    report.add(key, fmt::format("upstreams.{}: {}", key.text, done.error()));
  }
}

void apply_policy(Policy& policy, const std::vector<Entry>& entries, Report& report) {
  // The dialect comes first wherever it stands: it is the ground that the other settings change.
  for (const bool dialect : {true, false}) {
    for (const Entry& entry : entries) {
      const Setting<Policy>* setting = find(policy_settings(), entry.name);
      if (setting != nullptr && (entry.name == "dialect") == dialect) apply(*setting, policy, entry, report);
    }
  }
}

template <class Target>
bool known_in(const Settings<Target>& table, std::string_view name) {
  return find(table, name) != nullptr || is_group(names_of(table), name);
}

void read_defaults(Config& config, const Entry& section, Report& report) {
  if (section.value.kind == Kind::nothing) return;
  if (section.value.kind != Kind::map) {
    report.add(section.value, "defaults: expected a map of settings");
    return;
  }
  config.defaults_where = report.where(section.key);
  const auto names = names_of(policy_settings());
  const std::vector<Entry> entries = entries_of(section.value, names, report);
  for (const Entry& entry : entries) {
    if (find(policy_settings(), entry.name) != nullptr) continue;
    if (known_in(route_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" is a setting of a route", entry.name));
    } else if (known_in(process_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" belongs at the top of the file, not in defaults", entry.name));
    } else {
      report.add(entry.key, unknown(entry.name, names));
    }
  }
  apply_policy(config.defaults, entries, report);
}

void read_route(Config& config, const YamlNode& node, Report& report) {
  if (node.kind != Kind::map) {
    report.add(node, "routes: expected a map of settings with at least a path");
    return;
  }
  Route route;
  route.policy = config.defaults;
  route.where = report.where(node);
  std::vector<std::string_view> names = names_of(policy_settings());
  for (const Setting<Route>& setting : route_settings()) names.push_back(setting.name);
  const std::vector<Entry> entries = entries_of(node, names, report);
  for (const Entry& entry : entries) {
    if (const Setting<Route>* setting = find(route_settings(), entry.name)) {
      apply(*setting, route, entry, report);
    } else if (find(policy_settings(), entry.name) == nullptr) {
      const bool misplaced = known_in(process_settings(), entry.name);
      report.add(entry.key, misplaced ? fmt::format("\"{}\" belongs at the top of the file, not in a route", entry.name)
                                      : unknown(entry.name, names));
    }
  }
  if (std::ranges::find(entries, "path", &Entry::name) == entries.end()) {
    report.add(node, "this route has no path; path: /** matches everything");
  }
  apply_policy(route.policy, entries, report);
  config.routes.push_back(std::move(route));
}

void read_routes(Config& config, const Entry& section, Report& report) {
  if (section.value.kind == Kind::nothing) return;
  if (section.value.kind != Kind::list) {
    report.add(section.value, "routes: expected a list of routes");
    return;
  }
  for (const YamlNode& node : section.value.children) read_route(config, node, report);
}

// upstreams.NAME.SETTING; a name has no dots.
Parsed<void> set_in_upstream(Config& config, std::string_view name_and_setting, const std::string& value) {
  const std::size_t dot = name_and_setting.find('.');
  const std::string_view name = name_and_setting.substr(0, dot);
  const auto upstream = std::ranges::find(config.upstreams, name, &Upstream::name);
  if (upstream == config.upstreams.end()) return std::unexpected(fmt::format("there is no upstream \"{}\"", name));
  const std::string_view own_name = name_and_setting.substr(dot + 1);
  const Setting<Upstream>* setting = find(upstream_settings(), own_name);
  if (setting == nullptr) return std::unexpected(unknown(own_name, names_of(upstream_settings())));
  return setting->set(*upstream, read_values(setting->shape, value));
}

Parsed<void> apply_override(Config& config, const Override& change) {
  constexpr std::string_view defaults = "defaults.";
  const std::string_view name = change.setting;
  for (const Setting<Config>& setting : process_settings()) {
    if (setting.shape != Shape::map || !name.starts_with(setting.name)) continue;
    const std::string_view entry = name.substr(setting.name.size());
    if (entry.empty()) return std::unexpected(fmt::format("expected {}.NAME", setting.name));
    if (!entry.starts_with('.')) continue;
    const std::string_view own_name = entry.substr(1);
    if (setting.name == "upstreams" && own_name.contains('.')) return set_in_upstream(config, own_name, change.value);
    return setting.set(config, {std::string(own_name), change.value});
  }
  if (name.starts_with(defaults)) {
    const std::string_view own_name = name.substr(defaults.size());
    const Setting<Policy>* setting = find(policy_settings(), own_name);
    if (setting == nullptr) return std::unexpected(unknown(own_name, names_of(policy_settings())));
    return setting->set(config.defaults, read_values(setting->shape, change.value));
  }
  if (const Setting<Config>* setting = find(process_settings(), name)) {
    return setting->set(config, read_values(setting->shape, change.value));
  }
  if (find(policy_settings(), name) != nullptr) {
    return std::unexpected(fmt::format("unknown setting \"{}\"; did you mean \"defaults.{}\"?", name, name));
  }
  return std::unexpected(unknown(name, names_of(process_settings())));
}

void apply_overrides(Config& config, std::span<const Override> overrides, Report& report) {
  for (const bool dialect : {true, false}) {
    for (const Override& change : overrides) {
      if ((change.setting == "defaults.dialect") != dialect) continue;
      const Parsed<void> done = apply_override(config, change);
      if (change.setting == "admin") config.admin_where = {};
      if (change.setting == "environment") config.environment_where = {};
      if (!done) report.add({"", 0, 0, fmt::format("{}: {}", change.flag, done.error())});
    }
  }
}

// The process settings of the file; `defaults` and `routes` are left to the caller.
void read_process(Config& config, const std::vector<Entry>& entries, Report& report) {
  std::vector<std::string_view> names = names_of(process_settings());
  names.insert(names.end(), {"defaults", "routes"});
  for (const Entry& entry : entries) {
    if (entry.name == "defaults" || entry.name == "routes") continue;
    if (const Setting<Config>* setting = find(process_settings(), entry.name)) {
      if (entry.name == "upstreams") {
        apply_map(*setting, config, entry, report, read_upstream);
      } else {
        apply(*setting, config, entry, report);
        if (entry.name == "admin") config.admin_where = report.where(entry.place());
        if (entry.name == "environment") config.environment_where = report.where(entry.place());
      }
    } else if (known_in(policy_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" belongs in a route or in defaults", entry.name));
    } else if (known_in(route_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" belongs in a route", entry.name));
    } else {
      report.add(entry.key, unknown(entry.name, names));
    }
  }
}

void read_file(Config& config, const YamlNode& root, std::span<const Override> overrides, Report& report) {
  std::vector<Entry> entries;
  if (root.kind == Kind::map) {
    entries = entries_of(root, names_of(process_settings()), report);
  } else if (root.kind != Kind::nothing) {
    report.add(root, "expected a map of settings");
  }
  const auto section = [&](std::string_view name) { return std::ranges::find(entries, name, &Entry::name); };
  read_process(config, entries, report);
  if (const auto defaults = section("defaults"); defaults != entries.end()) read_defaults(config, *defaults, report);
  // Before the routes, which start from the defaults.
  apply_overrides(config, overrides, report);
  if (const auto routes = section("routes"); routes != entries.end()) read_routes(config, *routes, report);
}

}  // namespace

std::string to_string(const ConfigError& error) {
  if (error.file.empty()) return error.text;
  if (error.line == 0) return fmt::format("{}: {}", error.file, error.text);
  return fmt::format("{}:{}:{}: {}", error.file, error.line, error.column, error.text);
}

std::expected<Override, ConfigError> parse_override(std::string_view name_and_value) {
  const std::size_t equals = name_and_value.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    const std::string expected = not_expected("name=value such as log.level=debug", name_and_value).error();
    return std::unexpected(ConfigError{"", 0, 0, "--set: " + expected});
  }
  const std::string name(name_and_value.substr(0, equals));
  return Override{.flag = "--set " + name, .setting = name, .value = std::string(name_and_value.substr(equals + 1))};
}

std::expected<Config, ConfigErrors> parse(std::string_view text, std::string_view filename,
                                          std::span<const Override> overrides) {
  Report report(filename);
  Config config = builtin_config();
  const auto root = parse_yaml(text);
  if (!root) {
    report.add({std::string(filename), root.error().line, root.error().column, root.error().text});
    return std::unexpected(std::move(report.errors()));
  }
  read_file(config, *root, overrides, report);
  if (report.errors().empty()) return config;
  std::ranges::sort(report.errors(), {}, [](const ConfigError& e) { return std::tie(e.line, e.column, e.text); });
  return std::unexpected(std::move(report.errors()));
}

std::expected<Config, ConfigErrors> load(const std::string& path, std::span<const Override> overrides) {
  if (path.empty()) return parse("", "", overrides);
  const auto fail = [&](std::string text) { return std::unexpected(ConfigErrors{{path, 0, 0, std::move(text)}}); };
  std::ifstream file(path, std::ios::binary);
  std::string text(largest_file + 1, '\0');
  // A folder opens, and only then cannot be read.
  if (!file || (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    return fail("cannot be read");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > largest_file) return fail(fmt::format("larger than {}", format_size(largest_file)));
  return parse(text, path, overrides);
}

}  // namespace once
