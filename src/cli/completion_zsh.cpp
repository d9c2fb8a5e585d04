// Completion in zsh, using _arguments. The script is self-contained: it does not run Once while the user types.
#include <iterator>

#include <fmt/format.h>

#include "cli/command_tree.hpp"

namespace once::cli {

namespace {

constexpr std::string_view zsh_script = R"(#compdef once
# Completion of once in zsh; `once completion zsh` prints it.
_once_settings() {
  if compset -P '*='; then
    local -a words
    case ${IPREFIX##* } in
@SETTING_WORDS@    esac
    compadd -a words
  else
    local -a names=(@SETTINGS@)
    compadd -S= -a names
  fi
}
_once_stores() { compadd -S '' @STORES@ }
@FUNCTIONS@
if [[ $funcstack[1] == _once ]]; then
  _once "$@"
else
  compdef _once once
fi
)";

// Escapes a text in single quotes that is also inside brackets or before a colon of _arguments.
std::string described(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += R"('\'')";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string function_name(std::string_view path) {
  std::string name = "_";
  for (const char c : path) name += c == ' ' ? '_' : c;
  return name;
}

std::string zsh_action(const CLI::Option& option) {
  const Value value = value_of(option);
  switch (value.kind) {
    case Value::Kind::anything: return " ";
    case Value::Kind::word:
      return option.get_type_name() == "SPEC" ? "_once_stores" : fmt::format("({})", joined(value.words));
    case Value::Kind::file: return "_files";
    case Value::Kind::folder: return "_files -/";
    case Value::Kind::setting: return "_once_settings";
  }
  return " ";
}

// '--config=[A configuration file]:FILE:_files'
void add_option(std::string& out, const CLI::Option& option) {
  for (const std::string& name : spellings(option)) {
    const bool is_long = name.starts_with("--");
    const std::string many = repeats(option) ? "*" : "";
    fmt::format_to(std::back_inserter(out), " \\\n    '{}{}", many, name);
    if (takes_value(option)) out += is_long ? "=" : "+";
    fmt::format_to(std::back_inserter(out), "[{}]", described(option.get_description()));
    if (takes_value(option)) {
      fmt::format_to(std::back_inserter(out), ":{}:{}", described(option.get_type_name()), zsh_action(option));
    }
    out += '\'';
  }
}

std::string function_of(const std::string& path, const CLI::App& command) {
  const auto commands = shown_commands(command);
  std::string out = fmt::format("{}() {{\n", function_name(path));
  if (!commands.empty()) out += "  local curcontext=$curcontext state line\n";
  out += commands.empty() ? "  _arguments -s" : "  _arguments -C";
  for (const CLI::Option* option : shown_options(command)) add_option(out, *option);
  for (const CLI::Option* option : positionals(command)) {
    fmt::format_to(std::back_inserter(out), " \\\n    '{}{}:{}'",
                   option->get_required() ? ":" : "::", described(option->get_type_name()), zsh_action(*option));
  }
  if (commands.empty()) return out + "\n}\n";
  out += " \\\n    ': :->command' \\\n    '*:: :->rest'\n  case $state in\n    command)\n      local -a commands=(\n";
  std::string branches;
  for (const CLI::App* inner : commands) {
    fmt::format_to(std::back_inserter(out), "        '{}:{}'\n", inner->get_name(),
                   described(inner->get_description()));
    fmt::format_to(std::back_inserter(branches), "        {}) {} ;;\n", inner->get_name(),
                   function_name(path + " " + inner->get_name()));
  }
  out += "      )\n      _describe -t commands command commands ;;\n    rest)\n      case $line[1] in\n" + branches;
  return out + "      esac ;;\n  esac\n}\n";
}

}  // namespace

std::string zsh_completion(const CLI::App& app) {
  std::string functions;
  for (const auto& [path, command] : places(app)) functions += function_of(path, *command);
  std::vector<std::string> names;
  std::string setting_words;
  for (const NamedSetting& setting : settings_to_set()) {
    names.push_back(setting.name);
    if (setting.words.empty()) continue;
    fmt::format_to(std::back_inserter(setting_words), "      {}=) words=({}) ;;\n", setting.name,
                   joined(setting.words));
  }
  return filled(zsh_script, {{"SETTING_WORDS", setting_words},
                             {"SETTINGS", joined(names)},
                             {"STORES", joined(store_prefixes())},
                             {"FUNCTIONS", functions}});
}

}  // namespace once::cli
