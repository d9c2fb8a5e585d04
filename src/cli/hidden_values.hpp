// Hides the values of environment variables in messages about the configuration, because they may be secrets. A message
// shows the name of the variable instead.
#pragma once

#include <string>
#include <string_view>

#include "config/load.hpp"

namespace once::cli {

// From any thread. Of this process, as its environment is.
void hide_value(std::string_view name, std::string_view value);

// ${NAME} in place of each value that was hidden. Values of less than 4 bytes could be anything, and stay.
std::string without_hidden(std::string_view text);
// In its text. The name of a file that was read stays as it is.
ConfigError without_hidden(const ConfigError& error);

}  // namespace once::cli
