// Completion in bash. The script is self-contained: it does not run Once while the user types.
#include <iterator>

#include <fmt/format.h>

#include "cli/command_tree.hpp"

namespace once::cli {

namespace {

constexpr std::string_view bash_script = R"(# Completion of once in bash; `once completion bash` prints it.
_once_words() {
  COMPREPLY+=($(compgen -W "$1" -- "$current"))
  [[ ${COMPREPLY[0]-} == *[:/] ]] && compopt -o nospace 2>/dev/null
}
_once_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY+=($(compgen "$1" -- "$current"))
}
_once_settings() {
  if [[ -z $setting ]]; then
    COMPREPLY=($(compgen -W '@SETTINGS@' -- "$current"))
    compopt -o nospace 2>/dev/null
    return
  fi
  case $setting in
@SETTING_WORDS@  esac
}
# The value after an option; fails if there is none to expect.
_once_option_value() {
  case $1 in
@OPTION_VALUES@    *) return 1 ;;
  esac
}
_once_positional() {
  case $1 in
@POSITIONALS@  esac
}
_once() {
  local current=${COMP_WORDS[COMP_CWORD]} path=once options= commands= setting= before i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in
@PATHS@    esac
  done
  # readline cuts words at an equals sign: --option=value, and --set name=value.
  i=$((COMP_CWORD - 1))
  if [[ $current == = ]]; then
    current=
    i=$COMP_CWORD
  fi
  before=${COMP_WORDS[i]}
  if [[ $before == = ]]; then
    before=${COMP_WORDS[i - 1]}
    if [[ $before != -* ]]; then
      setting=$before
      before=${COMP_WORDS[i - 2]}
    fi
  fi
  [[ $before == -* ]] && _once_option_value "$path $before" && return
  case $path in
@WORDS@  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
  elif [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$current"))
  else
    _once_positional "$path"
  fi
}
complete -F _once once
)";

std::string bash_action(const CLI::Option& option) {
  const Value value = value_of(option);
  switch (value.kind) {
    case Value::Kind::anything: return ":";
    case Value::Kind::word: return fmt::format("_once_words '{}'", joined(value.words));
    case Value::Kind::file: return "_once_files -f";
    case Value::Kind::folder: return "_once_files -d";
    case Value::Kind::setting: return "_once_settings";
  }
  return ":";
}

struct Lines {
  std::string paths;
  std::string option_values;
  std::string positionals;
  std::string words;
};

void add_command(Lines& lines, const std::string& path, const CLI::App& command) {
  std::vector<std::string> commands;
  for (const CLI::App* inner : shown_commands(command)) {
    commands.push_back(inner->get_name());
    fmt::format_to(std::back_inserter(lines.paths), "      '{0} {1}') path='{0} {1}' ;;\n", path, inner->get_name());
  }
  std::vector<std::string> options;
  for (const CLI::Option* option : shown_options(command)) {
    std::vector<std::string> cases;
    for (const std::string& name : spellings(*option)) {
      options.push_back(name);
      cases.push_back(fmt::format("'{} {}'", path, name));
    }
    if (!takes_value(*option)) continue;
    fmt::format_to(std::back_inserter(lines.option_values), "    {}) {} ;;\n", fmt::join(cases, " | "),
                   bash_action(*option));
  }
  if (const auto all = positionals(command); !all.empty()) {
    fmt::format_to(std::back_inserter(lines.positionals), "    '{}') {} ;;\n", path, bash_action(*all.front()));
  }
  fmt::format_to(std::back_inserter(lines.words), "    '{}') options='{}' commands='{}' ;;\n", path, joined(options),
                 joined(commands));
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  Lines lines;
  for (const auto& [path, command] : places(app)) add_command(lines, path, *command);
  std::vector<std::string> settings;
  std::string setting_words;
  for (const NamedSetting& setting : settings_to_set()) {
    settings.push_back(setting.name + "=");
    if (setting.words.empty()) continue;
    fmt::format_to(std::back_inserter(setting_words), "    {}) _once_words '{}' ;;\n", setting.name,
                   joined(setting.words));
  }
  return filled(bash_script, {{"SETTINGS", joined(settings)},
                              {"SETTING_WORDS", setting_words},
                              {"OPTION_VALUES", lines.option_values},
                              {"POSITIONALS", lines.positionals},
                              {"PATHS", lines.paths},
                              {"WORDS", lines.words}});
}

}  // namespace once::cli
