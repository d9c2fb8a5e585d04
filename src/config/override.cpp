// Formats errors and parses --set.
#include <fmt/format.h>

#include "config/codec.hpp"
#include "config/load.hpp"

namespace once::config {

std::string to_string(const ConfigError& error) {
  if (error.file.empty()) return error.text;
  if (error.line == 0) return fmt::format("{}: {}", error.file, error.text);
  return fmt::format("{}:{}:{}: {}", error.file, error.line, error.column, error.text);
}

std::expected<Override, ConfigError> parse_override(std::string_view name_and_value) {
  const std::size_t equals = name_and_value.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    const std::string expected = not_expected("name=value such as log.level=debug", name_and_value).error();
    return std::unexpected(ConfigError{"", 0, 0, "--set: " + expected});
  }
  const std::string name(name_and_value.substr(0, equals));
  return Override{.flag = "--set " + name, .setting = name, .value = std::string(name_and_value.substr(equals + 1))};
}

}  // namespace once::config
