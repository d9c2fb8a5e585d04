// The commands and options behind --help. The completion is generated from them, so it has every command and option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/layers.hpp"

namespace once::cli {

std::string bash_completion(const CLI::App& app);

// The direct subcommands that --help shows, in its order.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
// Its options including --help, without positional ones.
std::vector<const CLI::Option*> shown_options(const CLI::App& app);
std::vector<const CLI::Option*> positionals(const CLI::App& app);

// Every command with its full path: "once", "once serve", "once journal verify".
struct Place {
  std::string path;
  const CLI::App* command;
};
std::vector<Place> places(const CLI::App& app);

// "-d", "--data"
std::vector<std::string> spellings(const CLI::Option& option);
// Whether a value follows the option.
bool takes_value(const CLI::Option& option);

// What may follow an option, or be given for a positional.
struct Value {
  enum class Kind : std::uint8_t { anything, word, file, folder, setting };
  Kind kind = Kind::anything;
  std::vector<std::string> words;
};
Value value_of(const CLI::Option& option);

// A setting for --set, with its possible words if it has a fixed set of values.
struct NamedSetting {
  std::string name;
  std::vector<std::string> words;
};
std::vector<NamedSetting> settings_to_set();

std::string joined(const std::vector<std::string>& words);

// Returns `text` with every @NAME@ replaced.
using Parts = std::vector<std::pair<std::string_view, std::string>>;
std::string filled(std::string_view text, const Parts& parts);

}  // namespace once::cli
