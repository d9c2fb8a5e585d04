// Hides the values of environment variables in messages about the configuration, because they may be secrets. A message
// shows the name of the variable instead.
#pragma once

#include <string>
#include <string_view>

#include "config/load.hpp"

namespace once::cli {

// Thread-safe. Global, like the environment.
void hide_value(std::string_view name, std::string_view value);

// Replaces each hidden value by ${NAME}. Values shorter than 4 bytes could match anything, and are kept.
std::string without_hidden(std::string_view text);
// The same for the error's text. The name of a file that was read stays unchanged.
ConfigError without_hidden(const ConfigError& error);

}  // namespace once::cli
