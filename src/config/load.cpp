#include "config/load.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/derive.hpp"
#include "config/removed.hpp"
#include "config/settings.hpp"
#include "config/yaml.hpp"

namespace once::config {

namespace {

using Kind = YamlNode::Kind;

// Collects errors about a file and those that it includes.
class Report {
 public:
  // The index of this file in its nodes.
  std::size_t add_file(std::string_view name) {
    files_.emplace_back(name);
    return files_.size() - 1;
  }
  const std::vector<std::string>& files() const { return files_; }

  void add(const YamlNode& at, std::string text) {
    errors_.push_back({files_.at(at.file), at.line, at.column, std::move(text)});
  }
  void add(ConfigError error) { errors_.push_back(std::move(error)); }
  void add_twice(std::string_view name, const YamlNode& first, const YamlNode& second) {
    const std::string elsewhere =
        first.file == second.file
            ? ""
            : fmt::format("; it is also set in {}:{}:{}", files_.at(first.file), first.line, first.column);
    add(second, fmt::format("\"{}\" is set twice{}", name, elsewhere));
  }

  Where where(const YamlNode& node) const { return {files_.at(node.file), node.line, node.column}; }
  ConfigErrors& errors() { return errors_; }

  // Config::places and Config::refused
  void set_place(const std::string& setting, const YamlNode& at) { places_[setting] = where(at); }
  void forget_place(const std::string& setting) { places_.erase(setting); }
  void refuse(const std::string& setting) { refused_.insert(setting); }
  void store_places(Config& config) {
    config.places = std::move(places_);
    config.refused = std::move(refused_);
  }

 private:
  std::vector<std::string> files_;
  ConfigErrors errors_;
  decltype(Config::places) places_;
  decltype(Config::refused) refused_;
};

// A key with its value, anywhere in a map.
struct Entry {
  std::string name;  // dotted
  const YamlNode& key;
  const YamlNode& value;

  // The parser places an absent value on the next line.
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

// Whether `name` is a group of settings, such as "key" of "key.header".
bool is_group(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view setting) {
    return setting.size() > name.size() && setting.starts_with(name) && setting[name.size()] == '.';
  });
}

// Flattens the map: {key: {header: X}} becomes key.header. Unknown groups are kept as they are.
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
    if (!is_group(names, name) && !was_group(name, value)) {
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
  std::map<std::string_view, const YamlNode*> seen;
  std::vector<Entry> unique;
  for (const Entry& entry : all) {
    const auto [first, is_new] = seen.emplace(entry.name, &entry.key);
    if (is_new) {
      unique.push_back(entry);
    } else {
      report.add_twice(entry.name, *first->second, entry.key);
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

// The error for a value that a setting refuses. Does not show a value in which variables were replaced, as it may be
// secret.
template <class Target>
std::string refused(const Setting<Target>& setting, std::string_view variables, const std::string& error) {
  if (variables.empty()) return error;
  if (setting.shape == Shape::map) {
    return fmt::format("the value is not valid; it contains {} and is not shown", variables);
  }
  return fmt::format("expected {}{}; the value contains {} and is not shown", setting.expected,
                     setting.range.empty() ? "" : ", " + setting.range, variables);
}

std::string variables_of(const YamlNode& node) {
  std::string all = node.variables;
  for (const YamlNode& child : node.children) {
    if (all.contains(child.variables)) continue;
    all += (all.empty() ? "" : ", ") + child.variables;
  }
  return all;
}

bool is_reported(const YamlNode& value) {
  return value.reported || std::ranges::any_of(value.children, &YamlNode::reported);
}

void replace_in_values(YamlNode& node, const Environ& environ, Report& report) {
  if (node.kind == Kind::scalar) {
    auto replaced = replace_variables(node.text, environ);
    if (!replaced) {
      report.add(node, std::move(replaced.error()));
      node.reported = true;
      return;
    }
    node.text = std::move(replaced->text);
    node.variables = std::move(replaced->variables);
  }
  const bool map = node.kind == Kind::map;
  for (std::size_t i = map ? 1 : 0; i < node.children.size(); i += map ? 2 : 1) {
    replace_in_values(node.children[i], environ, report);
  }
}

// Reads a setting whose value is itself a map of settings.
template <class Target>
using ReadEntry = void (*)(Target& target, const YamlNode& key, const YamlNode& map, Report& report);

// name: URL, name: URL …
template <class Target>
void apply_map(const Setting<Target>& setting, Target& target, const Entry& entry, Report& report,
               ReadEntry<Target> read_entry = nullptr) {
  if (entry.value.kind == Kind::nothing) return;
  report.set_place(entry.name, entry.key);
  const auto refuse = [&](const YamlNode& node, std::string text) {
    report.add(node, std::move(text));
    report.refuse(entry.name);
  };
  if (entry.value.kind != Kind::map) {
    refuse(entry.value, fmt::format("{}: expected {}", setting.name, setting.expected));
    return;
  }
  std::map<std::string_view, const YamlNode*> seen;
  for (std::size_t i = 0; i + 1 < entry.value.children.size(); i += 2) {
    const YamlNode& key = entry.value.children[i];
    const YamlNode& value = entry.value.children[i + 1];
    const std::string name = fmt::format("{}.{}", setting.name, key.text);
    if (const auto [first, is_new] = seen.emplace(key.text, &key); !is_new) {
      report.add_twice(name, *first->second, key);
      continue;
    }
    report.set_place(name, value.kind == Kind::scalar ? value : key);
    if (is_reported(value)) {
      report.refuse(entry.name);
    } else if (value.kind == Kind::map && read_entry != nullptr) {
      read_entry(target, key, value, report);
    } else if (value.kind == Kind::list || value.kind == Kind::map) {
      refuse(value, fmt::format("{}: expected {}", setting.name, setting.expected));
    } else if (const auto done = setting.set(target, {key.text, value.text}); !done) {
      refuse(value.kind == Kind::nothing ? key : value,
             fmt::format("{}: {}", name, refused(setting, value.variables, done.error())));
    }
  }
}

// `section` is the prefix of the names in Config::places: "defaults." or empty.
template <class Target>
void apply(const Setting<Target>& setting, Target& target, const Entry& entry, Report& report,
           const std::string& section = "") {
  if (setting.shape == Shape::map) {
    apply_map(setting, target, entry, report);
    return;
  }
  const std::string full_name = section + entry.name;
  report.set_place(full_name, entry.place());
  if (is_reported(entry.value)) {
    report.refuse(full_name);
    return;
  }
  const auto refuse = [&](const std::string& text) {
    report.add(entry.place(), fmt::format("{}: {}", setting.name, text));
    report.refuse(full_name);
  };
  const auto values = values_of(entry.value, setting.shape, setting.expected);
  if (!values) {
    refuse(values.error());
  } else if (const auto done = setting.set(target, *values); !done) {
    refuse(refused(setting, variables_of(entry.value), done.error()));
  }
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
      apply(*setting, upstream, entry, report, fmt::format("upstreams.{}.", upstream.name));
    } else {
      report.add(entry.key, unknown_setting(entry.name, names));
    }
  }
  if (std::ranges::find(entries, "servers", &Entry::name) == entries.end()) {
    report.add(key, fmt::format("upstreams.{} has no servers", key.text));
  }
  if (const auto done = add_upstream(config, std::move(upstream)); !done) {
    report.add(key, fmt::format("upstreams.{}: {}", key.text, done.error()));
    report.refuse("upstreams");
  }
}

void apply_policy(Policy& policy, const std::vector<Entry>& entries, Report& report, const std::string& section) {
  // Apply the dialect first, wherever it is in the file: the other settings change its values.
  for (const bool dialect : {true, false}) {
    for (const Entry& entry : entries) {
      const Setting<Policy>* setting = find(policy_settings(), entry.name);
      if (setting != nullptr && (entry.name == "dialect") == dialect) apply(*setting, policy, entry, report, section);
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
      report.add(entry.key, unknown_setting(entry.name, names));
    }
  }
  apply_policy(config.defaults, entries, report, "defaults.");
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
  const std::string section = fmt::format("routes.{}.", config.routes.size());
  for (const Entry& entry : entries) {
    if (const Setting<Route>* setting = find(route_settings(), entry.name)) {
      apply(*setting, route, entry, report, section);
    } else if (find(policy_settings(), entry.name) == nullptr) {
      const bool misplaced = known_in(process_settings(), entry.name);
      report.add(entry.key, misplaced ? fmt::format("\"{}\" belongs at the top of the file, not in a route", entry.name)
                                      : unknown_setting(entry.name, names));
    }
  }
  if (std::ranges::find(entries, "path", &Entry::name) == entries.end()) {
    report.add(node, "this route has no path; path: /** matches everything");
  }
  apply_policy(route.policy, entries, report, section);
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

template <class Target>
Parsed<void> set_by_override(const Setting<Target>& setting, Target& target, const Values& values,
                             std::string_view variables) {
  Parsed<void> done = setting.set(target, values);
  if (!done) done.error() = refused(setting, variables, done.error());
  return done;
}

// upstreams.NAME.SETTING; a name has no dots.
Parsed<void> set_in_upstream(Config& config, std::string_view name_and_setting, const Replaced& value) {
  const std::size_t dot = name_and_setting.find('.');
  const std::string_view name = name_and_setting.substr(0, dot);
  const auto upstream = std::ranges::find(config.upstreams, name, &Upstream::name);
  if (upstream == config.upstreams.end()) return std::unexpected(fmt::format("there is no upstream \"{}\"", name));
  const std::string_view own_name = name_and_setting.substr(dot + 1);
  const Setting<Upstream>* setting = find(upstream_settings(), own_name);
  if (setting == nullptr) return std::unexpected(unknown_setting(own_name, names_of(upstream_settings())));
  return set_by_override(*setting, *upstream, read_values(setting->shape, value.text), value.variables);
}

Parsed<void> apply_override(Config& config, const Override& change, const Environ& environ) {
  constexpr std::string_view defaults = "defaults.";
  const std::string_view name = change.setting;
  if (name == "include") return std::unexpected("only a file can include others");
  const auto value = replace_variables(change.value, environ);
  if (!value) return std::unexpected(value.error());
  for (const Setting<Config>& setting : process_settings()) {
    if (setting.shape != Shape::map || !name.starts_with(setting.name)) continue;
    const std::string_view entry = name.substr(setting.name.size());
    if (entry.empty()) return std::unexpected(fmt::format("expected {}.NAME", setting.name));
    if (!entry.starts_with('.')) continue;
    const std::string_view own_name = entry.substr(1);
    if (setting.name == "upstreams" && own_name.contains('.')) return set_in_upstream(config, own_name, *value);
    return set_by_override(setting, config, {std::string(own_name), value->text}, value->variables);
  }
  if (name.starts_with(defaults)) {
    const std::string_view own_name = name.substr(defaults.size());
    const Setting<Policy>* setting = find(policy_settings(), own_name);
    if (setting == nullptr) return std::unexpected(unknown_setting(own_name, names_of(policy_settings())));
    return set_by_override(*setting, config.defaults, read_values(setting->shape, value->text), value->variables);
  }
  if (const Setting<Config>* setting = find(process_settings(), name)) {
    return set_by_override(*setting, config, read_values(setting->shape, value->text), value->variables);
  }
  if (find(policy_settings(), name) != nullptr) {
    return std::unexpected(fmt::format("unknown setting \"{}\"; did you mean \"defaults.{}\"?", name, name));
  }
  return std::unexpected(unknown_setting(name, names_of(process_settings())));
}

void apply_overrides(Config& config, std::span<const Override> overrides, const Environ& environ, Report& report) {
  for (const bool dialect : {true, false}) {
    for (const Override& change : overrides) {
      if ((change.setting == "defaults.dialect") != dialect) continue;
      const Parsed<void> done = apply_override(config, change, environ);
      report.forget_place(change.setting);
      if (done) continue;
      report.add({"", 0, 0, fmt::format("{}: {}", change.flag, done.error())});
      report.refuse(change.setting.starts_with("upstreams.") ? "upstreams" : change.setting);
    }
  }
}

// Reads the process settings of the file; the caller reads `defaults` and `routes`.
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
      }
      continue;
    }
    report.refuse("upstreams");  // the name may be a misspelt `upstreams`
    if (known_in(policy_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" belongs in a route or in defaults", entry.name));
    } else if (known_in(route_settings(), entry.name)) {
      report.add(entry.key, fmt::format("\"{}\" belongs in a route{}", entry.name,
                                        entry.name == "upstream" ? "; define backends under upstreams, such as "
                                                                   "upstreams: {default: http://127.0.0.1:9000}"
                                                                 : ""));
    } else {
      report.add(entry.key, unknown_setting(entry.name, names));
    }
  }
}

void read_root(Config& config, const YamlNode& root, std::span<const Override> overrides, const Environ& environ,
               Report& report) {
  const std::vector<Entry> entries = entries_of(root, names_of(process_settings()), report);
  const auto section = [&](std::string_view name) { return std::ranges::find(entries, name, &Entry::name); };
  read_process(config, entries, report);
  if (const auto defaults = section("defaults"); defaults != entries.end()) read_defaults(config, *defaults, report);
  // Before the routes, because they start from the defaults.
  apply_overrides(config, overrides, environ, report);
  if (const auto routes = section("routes"); routes != entries.end()) read_routes(config, *routes, report);
}

// Whether several files may each set a part of this map: a group of settings, or the upstreams.
bool is_shared(const std::string& name) {
  constexpr std::string_view defaults = "defaults.";
  if (name == "defaults") return true;
  if (name.starts_with(defaults)) return is_group(names_of(policy_settings()), name.substr(defaults.size()));
  const Setting<Config>* setting = find(process_settings(), name);
  return setting != nullptr ? setting->shape == Shape::map : is_group(names_of(process_settings()), name);
}

// Merges an included file into the one that includes it. A setting that both have is a duplicate, which is reported.
// Included routes come first, so that a catch-all route in the main file remains the last.
void merge(YamlNode& into, YamlNode from, const std::string& prefix = "") {
  for (std::size_t i = 0; i + 1 < from.children.size(); i += 2) {
    YamlNode& key = from.children[i];
    YamlNode& value = from.children[i + 1];
    const std::string name = prefix + key.text;
    YamlNode* known = nullptr;
    for (std::size_t j = 0; j + 1 < into.children.size() && known == nullptr; j += 2) {
      if (into.children[j].text == key.text && into.children[j + 1].kind == value.kind) known = &into.children[j + 1];
    }
    if (known != nullptr && name == "routes" && value.kind == Kind::list) {
      const auto main = std::ranges::find(known->children, into.file, &YamlNode::file);
      known->children.insert(main, std::make_move_iterator(value.children.begin()),
                             std::make_move_iterator(value.children.end()));
    } else if (known != nullptr && value.kind == Kind::map && is_shared(name)) {
      merge(*known, std::move(value), name + ".");
    } else {
      into.children.push_back(std::move(key));
      into.children.push_back(std::move(value));
    }
  }
}

void number(YamlNode& node, std::size_t file) {
  node.file = file;
  for (YamlNode& child : node.children) number(child, file);
}

// Parses a file as a map and replaces its variables; reports a file that is no map.
std::optional<YamlNode> read_map(std::string_view text, std::string_view filename, const Environ& environ,
                                 Report& report) {
  const std::size_t file = report.add_file(filename);
  auto root = parse_yaml(text);
  if (!root) {
    report.add({std::string(filename), root.error().line, root.error().column, root.error().text});
    return std::nullopt;
  }
  number(*root, file);
  if (root->kind == Kind::nothing) root->kind = Kind::map;
  if (root->kind != Kind::map) {
    report.add(*root, "expected a map of settings");
    return std::nullopt;
  }
  replace_in_values(*root, environ, report);
  return std::move(*root);
}

const YamlNode* value_in(const YamlNode& map, std::string_view name) {
  for (std::size_t i = 0; i + 1 < map.children.size(); i += 2) {
    if (map.children[i].kind == Kind::scalar && map.children[i].text == name) return &map.children[i + 1];
  }
  return nullptr;
}

bool include_file(YamlNode& root, const YamlNode& named, const IncludedFile& file, const Environ& environ,
                  Report& report) {
  if (std::ranges::find(report.files(), file.path) != report.files().end()) {
    report.add(named, fmt::format("include: {} has already been read", file.path));
    return false;
  }
  auto included = read_map(file.text, file.path, environ, report);
  if (!included) return false;
  if (const YamlNode* nested = value_in(*included, "include")) {
    report.add(*nested, "include: an included file cannot include others");
    return false;
  }
  merge(root, std::move(*included));
  return true;
}

// Merges the included files. Returns whether all of them could be read.
bool include_all(YamlNode& root, const ReadIncluded& read, const Environ& environ, Report& report) {
  const YamlNode* value = value_in(root, "include");
  if (value == nullptr) return true;
  if (is_reported(*value)) return false;
  const YamlNode named = *value;
  const auto patterns = values_of(named, Shape::list, "");
  if (!patterns) return false;  // reported with the other settings
  bool all = true;
  for (const std::string& pattern : *patterns) {
    const auto files = read ? read(pattern) : std::unexpected("this configuration is not in a file");
    if (!files) {
      report.add(named, fmt::format("include: {}", files.error()));
      all = false;
      continue;
    }
    for (const IncludedFile& file : *files) all = include_file(root, named, file, environ, report) && all;
  }
  return all;
}

}  // namespace

Loaded parse_all(std::string_view text, std::string_view filename, std::span<const Override> overrides,
                 const Environ& environ, const ReadIncluded& included) {
  Report report;
  Loaded loaded{.config = builtin_config(), .errors = {}, .complete = false};
  if (auto root = read_map(text, filename, environ, report)) {
    loaded.complete = include_all(*root, included, environ, report);
    read_root(loaded.config, *root, overrides, environ, report);
  }
  derive(loaded.config);
  report.store_places(loaded.config);
  std::ranges::sort(report.errors(), {},
                    [](const ConfigError& e) { return std::tie(e.file, e.line, e.column, e.text); });
  loaded.errors = std::move(report.errors());
  return loaded;
}

std::expected<Config, ConfigErrors> parse(std::string_view text, std::string_view filename,
                                          std::span<const Override> overrides, const Environ& environ,
                                          const ReadIncluded& included) {
  Loaded loaded = parse_all(text, filename, overrides, environ, included);
  if (loaded.errors.empty()) return std::move(loaded.config);
  return std::unexpected(std::move(loaded.errors));
}

Loaded load_all(const std::string& path, std::span<const Override> overrides, const Environ& environ) {
  if (path.empty()) return parse_all("", "", overrides, environ);
  const auto text = read_config_file(path);
  if (!text) return {.config = {}, .errors = {{path, 0, 0, text.error()}}, .complete = false};
  return parse_all(*text, path, overrides, environ,
                   [&](const std::string& pattern) { return read_included(pattern, path); });
}

std::expected<Config, ConfigErrors> load(const std::string& path, std::span<const Override> overrides,
                                         const Environ& environ) {
  Loaded loaded = load_all(path, overrides, environ);
  if (loaded.errors.empty()) return std::move(loaded.config);
  return std::unexpected(std::move(loaded.errors));
}

}  // namespace once::config
