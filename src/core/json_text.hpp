// Writing JSON strings, and the UTF-8 that goes into them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// How many bytes the UTF-8 sequence at the start of `text` takes; 0 if it is not valid (overlong forms, surrogates
// and values past U+10FFFF are not) or `text` is empty.
std::size_t utf8_sequence(std::string_view text);
bool is_utf8(std::string_view text);

// Appends `code_point`, which is not a surrogate and at most U+10FFFF.
void append_utf8(std::string& out, char32_t code_point);

// Appends `text` as a JSON string with quotes, escaped as RFC 8785 does: what must be, in its shortest form. A byte
// that is not UTF-8 becomes U+FFFD, so that the result is JSON whatever the text was.
void append_json_string(std::string& out, std::string_view text);

}  // namespace once::core
