// The members of a JSON object, each value as the bytes that were sent. For requests whose values are stored and
// returned unchanged, without decoding them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::claims {

inline constexpr std::size_t max_members_depth = 128;

struct JsonMember {
  std::string name;
  std::string_view value;  // a whole JSON value, without white space around it
};

// nullopt unless `json` is one valid JSON object (RFC 8259, UTF-8) without duplicate names. Unlike canonical_json() it
// accepts escaped lone surrogates inside values: JavaScript writes them, and a result must not be refused because of
// that.
std::optional<std::vector<JsonMember>> json_members(std::string_view json);

// Whether `json` is one valid JSON value.
bool is_json_value(std::string_view json);

// The text of a JSON string; nullopt if it is no string, or no valid Unicode.
std::optional<std::string> json_string(std::string_view value);

}  // namespace once::claims
