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
  int line = 0;  // both start at 1
  int column = 0;
  std::size_t file = 0;            // the index among the files that are read together
  std::string text;                // scalar
  std::string variables;           // the ${NAME}s that were replaced in `text`, which may be secret
  bool reported = false;           // a mistake in `text` was reported, so the value is ignored
  std::vector<YamlNode> children;  // list: its items; map: key, value, key, value …, duplicates included
};

struct YamlError {
  int line = 0;
  int column = 0;
  std::string text;
};

// An empty text has the kind `nothing`. Several documents, or one that is nested too deeply, are an error.
std::expected<YamlNode, YamlError> parse_yaml(std::string_view text);

// The value in YAML syntax, so that it is read back as the same text.
std::string yaml_scalar(std::string_view text);

}  // namespace once::config
