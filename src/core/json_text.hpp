// Writes JSON strings and UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// The length of the UTF-8 sequence at the start of `text`; 0 if it is invalid (overlong forms, surrogates and values
// past U+10FFFF are) or `text` is empty.
std::size_t utf8_sequence(std::string_view text);
bool is_utf8(std::string_view text);

// Appends `code_point`, which must not be a surrogate or greater than U+10FFFF.
void append_utf8(std::string& out, char32_t code_point);

// Appends `text` as a quoted JSON string with the shortest escapes, as in RFC 8785. Invalid UTF-8 becomes U+FFFD, so
// that the result is always JSON.
void append_json_string(std::string& out, std::string_view text);

}  // namespace once::core
