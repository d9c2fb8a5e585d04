// Completion in fish. The script is self-contained: it does not run Once while the user types.
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/command_tree.hpp"

namespace once::cli {

namespace {

constexpr std::string_view fish_script = R"(# Completion of once in fish; `once completion fish` prints it.
# The words that lead to the command that is being typed, in the order of the line.
function __once_path
    set -l path once
    for word in (commandline -opc)[2..]
        switch "$path $word"
@PATHS@        end
    end
    echo $path
end
function __once_at
    test (__once_path) = "$argv"
end
function __once_settings
    printf '%s\n' @SETTINGS@
end
complete -c once -f
@LINES@)";

std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_action(const CLI::Option& option) {
  const Value value = value_of(option);
  switch (value.kind) {
    case Value::Kind::anything: return " -x";
    case Value::Kind::word: return fmt::format(" -x -a {}", single_quoted(joined(value.words)));
    case Value::Kind::file: return " -r -F";
    case Value::Kind::folder: return " -x -a '(__fish_complete_directories)'";
    case Value::Kind::setting: return " -x -a '(__once_settings)'";
  }
  return " -x";
}

void add_lines(std::string& out, const std::string& path, const CLI::App& command) {
  const std::string here = fmt::format("complete -c once -n {}", single_quoted("__once_at " + path));
  for (const CLI::App* inner : shown_commands(command)) {
    fmt::format_to(std::back_inserter(out), "{} -a {} -d {}\n", here, inner->get_name(),
                   single_quoted(inner->get_description()));
  }
  for (const CLI::Option* option : shown_options(command)) {
    out += here;
    for (const std::string& name : option->get_snames()) out += " -s " + name;
    for (const std::string& name : option->get_lnames()) out += " -l " + name;
    if (takes_value(*option)) out += fish_action(*option);
    fmt::format_to(std::back_inserter(out), " -d {}\n", single_quoted(option->get_description()));
  }
  if (const auto all = positionals(command); !all.empty()) {
    const Value::Kind kind = value_of(*all.front()).kind;
    if (kind != Value::Kind::anything) out += here + fish_action(*all.front()) + "\n";
  }
}

}  // namespace

std::string fish_completion(const CLI::App& app) {
  std::string lines;
  std::string paths;
  for (const auto& [path, command] : places(app)) {
    add_lines(lines, path, *command);
    for (const CLI::App* inner : shown_commands(*command)) {
      fmt::format_to(std::back_inserter(paths), "            case '{0} {1}'\n                set path $path {1}\n",
                     path, inner->get_name());
    }
  }
  // A setting with its words, or only its name if its value is free.
  std::vector<std::string> settings;
  for (const NamedSetting& setting : settings_to_set()) {
    if (setting.words.empty()) settings.push_back(setting.name + "=");
    for (const std::string& word : setting.words) settings.push_back(setting.name + "=" + word);
  }
  return filled(fish_script, {{"SETTINGS", joined(settings)}, {"PATHS", paths}, {"LINES", lines}});
}

}  // namespace once::cli
