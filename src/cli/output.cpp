#include "cli/output.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace once::cli {

void print(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

void print_error(std::string_view text) {
  fmt::print(stderr, "once: {}\n", text);
}

int usage_error(std::string_view why) {
  print_error(why);
  return 2;
}

void print_errors(const ConfigErrors& errors, std::string_view kind) {
  for (const ConfigError& error : errors) fmt::print(stderr, "{}: {}\n", kind, to_string(error));
}

}  // namespace once::cli
