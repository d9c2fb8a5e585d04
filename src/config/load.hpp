// Makes a Config from a configuration file and the command line. Reports every mistake with its position.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/include.hpp"
#include "config/variables.hpp"

namespace once::config {

struct ConfigError {
  std::string file;  // empty: not about a file
  int line = 0;      // 0: about the file as a whole
  int column = 0;
  std::string text;

  bool operator==(const ConfigError&) const = default;
};

// once.yaml:12:5: unknown setting "lese"; did you mean "lease"?
std::string to_string(const ConfigError& error);

using ConfigErrors = std::vector<ConfigError>;

// A setting given on the command line; overrides the file. `setting` is a process setting, upstreams.NAME,
// upstreams.NAME.X for a setting X of an upstream, or defaults.X for a setting X of the policy.
struct Override {
  std::string flag;  // for errors: "--listen"
  std::string setting;
  std::string value;
};

// --set name=value
std::expected<Override, ConfigError> parse_override(std::string_view name_and_value);

// Applies the built-in settings, then `defaults:` (its dialect first), then each route's (its dialect first).
// Replaces ${NAME} in a value of a file or an override by a variable of `environ`; without `environ`, no variable is
// set. `included` reads the files of `include`; without it, none can be included.
std::expected<Config, ConfigErrors> parse(std::string_view text, std::string_view filename,
                                          std::span<const Override> overrides = {}, const Environ& environ = {},
                                          const ReadIncluded& included = {});

// The settings that could be read despite mistakes, so that check() finds further ones.
struct Loaded {
  Config config;
  ConfigErrors errors;
  bool complete = false;  // no file was skipped
};

Loaded parse_all(std::string_view text, std::string_view filename, std::span<const Override> overrides = {},
                 const Environ& environ = {}, const ReadIncluded& included = {});
Loaded load_all(const std::string& path, std::span<const Override> overrides = {}, const Environ& environ = {});

// No path: the built-in settings and the overrides.
std::expected<Config, ConfigErrors> load(const std::string& path, std::span<const Override> overrides = {},
                                         const Environ& environ = {});

}  // namespace once::config
