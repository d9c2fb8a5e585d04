#include "cli/output.hpp"

#include <cstdio>

#include <fmt/format.h>

#include "cli/hidden_values.hpp"

namespace once::cli {

void print(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void print_error(std::string_view text) {
  fmt::print(stderr, "once: {}\n", without_hidden(text));
}

int usage_error(std::string_view why) {
  print_error(why);
  return 2;
}

void print_errors(const ConfigErrors& errors, std::string_view kind) {
  for (const ConfigError& error : errors) fmt::print(stderr, "{}: {}\n", kind, to_string(without_hidden(error)));
}

}  // namespace once::cli
