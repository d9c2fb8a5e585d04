// Parses YAML into plain values with their positions. Only this file uses yaml-cpp, and it catches its exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::config {

struct YamlNode {
  enum class Kind : std::uint8_t { nothing, scalar, list, map };

  Kind kind = Kind::nothing;
  int line = 0;  // both from 1
  int column = 0;
  std::size_t file = 0;            // which of the files that are read together
  std::string text;                // scalar
  std::string variables;           // the ${NAME}s that were replaced in `text`: it may hold a secret
  bool reported = false;           // a mistake in `text` has been reported, and the value is not read
  std::vector<YamlNode> children;  // list: its items; map: key, value, key, value …, duplicates included
};

struct YamlError {
  int line = 0;
  int column = 0;
  std::string text;
};

// An empty text is `nothing`. More than one document, or one nested too deeply, is an error.
std::expected<YamlNode, YamlError> parse_yaml(std::string_view text);

// A value as it must be written in YAML to be read back as the same text.
std::string yaml_scalar(std::string_view text);

}  // namespace once::config
