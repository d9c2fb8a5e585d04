// The idempotency key as a client sends it: an RFC 9651 string ("abc", with \" and \\ escaped) or bare (abc); both are
// the same key. 1 to max_length visible ASCII characters, counted without quotes and escapes; between quotes also
// spaces. Parameters after a string ("abc";a=1) are ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/layers.hpp"

namespace once::core {

enum class KeyError : std::uint8_t {
  empty,
  too_long,
  bad_character,  // not visible ASCII
  bad_string,     // starts with a quote but is no RFC 9651 string
  several,        // more than one key: parse_key() finds "a", "b"; the caller finds repeated headers
};

// The detail of a 400 response.
const char* describe(KeyError error);

// A view of the header value it was parsed from, which must outlive it. Owns memory only if there were escapes.
class Key {
 public:
  static Key viewing(std::string_view text) { return Key(text, {}); }
  static Key owning(std::string unescaped) { return Key({}, std::move(unescaped)); }

  std::string_view view() const { return unescaped_.empty() ? text_ : std::string_view(unescaped_); }

 private:
  Key(std::string_view text, std::string unescaped) : text_(text), unescaped_(std::move(unescaped)) {}

  std::string_view text_;
  std::string unescaped_;
};

// Parses the value of one header field, ignoring surrounding white space.
std::expected<Key, KeyError> parse_key(std::string_view header_value, std::size_t max_length);

}  // namespace once::core
