#include "config/json_schema.hpp"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "config/settings.hpp"
#include "core/json_text.hpp"

namespace once::config {

namespace {

std::string json_quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// A JSON object to write: members in the order in which they were added, values already in JSON.
class Object {
 public:
  Object& add(std::string_view name, std::string value) {
    members_.emplace_back(name, std::move(value));
    return *this;
  }
  Object& text(std::string_view name, std::string_view value) { return add(name, json_quoted(value)); }

  // One member per line, nested objects indented. A line end is never part of a string: JSON escapes those.
  std::string write() const {
    std::string out = "{";
    for (const auto& [name, value] : members_) {
      out += (out.size() > 1 ? ",\n  " : "\n  ") + json_quoted(name) + ": ";
      for (const char c : value) {
        out += c;
        if (c == '\n') out += "  ";
      }
    }
    return out + "\n}";
  }

 private:
  std::vector<std::pair<std::string, std::string>> members_;
};

std::string array(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

// How YAML reads this word without quotes.
std::string as_yaml(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool is_number = !word.empty() && error == std::errc() && end == word.data() + word.size();
  return is_number || word == "true" || word == "false" ? std::string(word) : json_quoted(word);
}

std::string words(const std::vector<std::string>& all) {
  std::vector<std::string> values;
  for (const std::string_view word : with_spellings({all.begin(), all.end()})) {
    values.push_back(json_quoted(word));
    if (as_yaml(word) != values.back()) values.push_back(as_yaml(word));
  }
  return array(values);
}

// The value is only known when its environment variables are, so any text is valid.
constexpr std::string_view variable_pattern = R"(\$\{[A-Za-z_][A-Za-z0-9_]*\})";

std::string variable_reference() {
  return Object().text("$ref", "#/$defs/variable").write();
}

Object pattern_schema(const Syntax& syntax, const std::string& expected) {
  Object out;
  if (syntax.any_scalar) {
    out.add("type", R"(["string", "number", "boolean"])");
  } else {
    out.add("type", syntax.numbers ? R"(["string", "integer"])" : R"("string")");
  }
  if (!syntax.pattern.empty()) {
    out.text("pattern", fmt::format("{}|{}", variable_pattern, syntax.pattern)).text("patternErrorMessage", expected);
  }
  if (syntax.numbers) {
    out.add("minimum", fmt::to_string(syntax.numbers->least)).add("maximum", fmt::to_string(syntax.numbers->most));
  }
  return out;
}

// The schema of one value. `expected` is the message that an editor shows when the pattern does not match.
Object value_schema(const Syntax& syntax, const std::string& expected) {
  if (syntax.words.empty()) return pattern_schema(syntax, expected);
  Object word;
  word.add("enum", words(syntax.words));
  if (syntax.pattern.empty()) return Object().add("anyOf", array({word.write(), variable_reference()}));
  return Object().add("anyOf", array({word.write(), pattern_schema(syntax, expected).write()}));
}

template <class Target>
std::string expected_of(const Setting<Target>& setting) {
  return setting.range.empty() ? setting.expected : fmt::format("{}, {}", setting.expected, setting.range);
}

// A single value needs no brackets.
template <class Target>
Object list_schema(const Setting<Target>& setting) {
  const std::string item = value_schema(setting.syntax, expected_of(setting)).write();
  const std::string items = Object()
                                .add("type", R"("array")")
                                .add("items", item)
                                .add("minItems", fmt::to_string(setting.items.least))
                                .add("maxItems", fmt::to_string(setting.items.most))
                                .add("uniqueItems", "true")
                                .write();
  std::vector<std::string> forms = {item, items};
  if (!setting.none.empty()) {
    forms.push_back(
        Object().add("enum", array({json_quoted(setting.none), array({json_quoted(setting.none)})})).write());
  }
  return Object().add("anyOf", array(forms));
}

template <class Target>
Object map_schema(const Setting<Target>& setting) {
  std::string value = value_schema(setting.syntax, setting.expected).write();
  if (setting.name == "upstreams") {
    value = Object().add("anyOf", array({value, Object().text("$ref", "#/$defs/upstream").write()})).write();
  }
  Object out;
  out.add("type", R"(["object", "null"])")
      .add("propertyNames", Object().text("pattern", syntax::plain_name()).write())
      .add("additionalProperties", value);
  if (setting.name != "upstreams") out.add("maxProperties", fmt::to_string(most_list_items));
  return out;
}

template <class Target>
Object shaped_schema(const Setting<Target>& setting) {
  switch (setting.shape) {
    case Shape::one: return value_schema(setting.syntax, expected_of(setting));
    case Shape::list: return list_schema(setting);
    case Shape::map: return map_schema(setting);
  }
  return {};
}

template <class Target>
std::string setting_schema(const Setting<Target>& setting, const Target& defaults) {
  Object out = shaped_schema(setting);
  out.text("description", fmt::format("{}\nExpected: {}.", setting.help, expected_of(setting)));
  if (setting.shape == Shape::map) return out.write();
  std::vector<std::string> values;
  for (const std::string& value : setting.get(defaults)) values.push_back(json_quoted(value));
  return out.add("default", setting.shape == Shape::list ? array(values) : values.at(0)).write();
}

Object map_of(const Object& properties, std::string_view required = "") {
  Object out;
  // A setting must have a value; a group may be empty.
  out.add("type", required.empty() ? R"(["object", "null"])" : R"("object")")
      .add("additionalProperties", "false")
      .add("properties", properties.write());
  if (!required.empty()) out.add("required", array({json_quoted(required)}));
  return out;
}

// The settings whose names begin with `prefix`, with groups as nested objects.
template <class Target>
Object properties_of(const Settings<Target>& table, const Target& defaults, const std::string& prefix = "") {
  Object out;
  std::vector<std::string> groups;
  for (const Setting<Target>& setting : table) {
    if (!setting.name.starts_with(prefix)) continue;
    const std::string_view rest = setting.name.substr(prefix.size());
    const std::size_t dot = rest.find('.');
    if (dot == std::string_view::npos) {
      out.add(rest, setting_schema(setting, defaults));
      continue;
    }
    const std::string group(rest.substr(0, dot));
    if (std::ranges::find(groups, group) != groups.end()) continue;
    groups.push_back(group);
    out.add(group, map_of(properties_of(table, defaults, prefix + group + ".")).write());
  }
  return out;
}

// The settings of `defaults` and of routes are defined once, and referred to by the first part of their name.
template <class Take>
void for_each_name(const Settings<Policy>& table, Take take) {
  std::vector<std::string_view> seen;
  for (const Setting<Policy>& setting : table) {
    const std::string_view first = setting.name.substr(0, setting.name.find('.'));
    if (std::ranges::find(seen, first) != seen.end()) continue;
    seen.push_back(first);
    take(first);
  }
}

std::string reference(std::string_view name) {
  return Object().text("$ref", fmt::format("#/$defs/policy/properties/{}", name)).write();
}

}  // namespace

std::string json_schema() {
  const Config config = builtin_config();
  Object route;
  for (const Setting<Route>& setting : route_settings()) route.add(setting.name, setting_schema(setting, Route()));
  for_each_name(policy_settings(), [&route](std::string_view name) { route.add(name, reference(name)); });
  Object defaults;
  for_each_name(policy_settings(), [&defaults](std::string_view name) { defaults.add(name, reference(name)); });
  Object routes;
  routes.add("type", R"(["array", "null"])").add("items", map_of(route, "path").write());
  Object definitions;
  definitions.add("policy", map_of(properties_of(policy_settings(), config.defaults)).write())
      .add("variable", Object().add("type", R"("string")").text("pattern", variable_pattern).write())
      .add("upstream", map_of(properties_of(upstream_settings(), Upstream()), "servers").write());
  Object properties = properties_of(process_settings(), config);
  properties.add("defaults", map_of(defaults).write()).add("routes", routes.write());
  return map_of(properties)
             .text("$schema", "https://json-schema.org/draft/2020-12/schema")
             .text("$id", "urn:once:schema:configuration")
             .text("title", "Configuration of Once")
             .text("description", "Made from the settings tables; `once config --schema` prints it.")
             .add("$defs", definitions.write())
             .write() +
         "\n";
}

}  // namespace once::config
