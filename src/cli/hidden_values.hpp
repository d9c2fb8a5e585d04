// What environment variables hold that the configuration was made with may be secrets, wherever in it they were put. No
// message about the configuration shows them: where one would, it has the name of the variable.
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
