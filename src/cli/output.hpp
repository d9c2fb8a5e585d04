// Output of commands for people.
#pragma once

#include <string_view>

#include "config/load.hpp"

namespace once::cli {

void print(std::string_view text);        // stdout
void print_error(std::string_view text);  // stderr, as "once: text"
int usage_error(std::string_view why);    // prints it, and returns the exit code of wrong options
void print_errors(const ConfigErrors& errors, std::string_view kind);

}  // namespace once::cli
