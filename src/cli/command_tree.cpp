#include "cli/command_tree.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/settings.hpp"
#include "store/catalog/catalog.hpp"

namespace once::cli {

namespace {

// The allowed words in a type name such as {text,json}.
std::vector<std::string> listed_words(std::string_view type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return {};
  std::vector<std::string> words;
  for (const std::string_view word : split(type.substr(begin + 1, end - begin - 1), ','))
    words.emplace_back(trim(word));
  return words;
}

// How the URLs of stores begin.
std::vector<std::string> store_prefixes() {
  std::vector<std::string> prefixes;
  for (const StoreType* type : store_types()) prefixes.push_back(url_prefix(*type));
  return prefixes;
}

template <class Target>
void add_settings(std::vector<NamedSetting>& out, const Settings<Target>& table, std::string_view prefix) {
  for (const Setting<Target>& setting : table) {
    if (setting.shape == Shape::map) continue;
    out.push_back({.name = std::string(prefix) + std::string(setting.name), .words = setting.syntax.words});
  }
}

void add_places(std::vector<Place>& out, const CLI::App& command, const std::string& path) {
  out.push_back({.path = path, .command = &command});
  for (const CLI::App* inner : shown_commands(command)) add_places(out, *inner, path + " " + inner->get_name());
}

}  // namespace

std::vector<Place> places(const CLI::App& app) {
  std::vector<Place> out;
  add_places(out, app, app.get_name());
  return out;
}

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* option) { return option->nonpositional() && !option->get_group().empty(); });
}

std::vector<const CLI::Option*> positionals(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0 && option.get_type_size_max() > 0;
}

Value value_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (auto words = listed_words(type); !words.empty()) return {.kind = Value::Kind::word, .words = std::move(words)};
  if (type == "FILE") return {.kind = Value::Kind::file};
  if (type == "FOLDER") return {.kind = Value::Kind::folder};
  if (type == "NAME=VALUE") return {.kind = Value::Kind::setting};
  if (type == "SPEC") return {.kind = Value::Kind::word, .words = store_prefixes()};
  return {};
}

std::vector<NamedSetting> settings_to_set() {
  std::vector<NamedSetting> all;
  add_settings(all, process_settings(), "");
  add_settings(all, policy_settings(), "defaults.");
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string filled(std::string_view text, const Parts& parts) {
  std::string out(text);
  for (const auto& [name, value] : parts) {
    const std::string mark = fmt::format("@{}@", name);
    for (std::size_t at = out.find(mark); at != std::string::npos; at = out.find(mark, at + value.size())) {
      out.replace(at, mark.size(), value);
    }
  }
  return out;
}

}  // namespace once::cli
