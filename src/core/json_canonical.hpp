// One canonical text for all spellings of a JSON value: order of members, white space, escapes and the notation of
// numbers do not matter. Members are in RFC 8785 order (by UTF-16 code units) and strings are escaped as there. Numbers
// differ from RFC 8785, which converts them to a double: two amounts with the same double would look like one request.
// Here they are exact decimals: 1.50, 15e-1 and 1.5 are all 15e-1, but 9007199254740993 is not 9007199254740992.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// Deeper documents have no canonical form. It bounds the stack, and the copying that a hostile nesting of objects
// in reverse order can cause; 64 is also what common parsers stop at.
inline constexpr std::size_t max_json_depth = 64;
// Nor do documents with a larger exponent: room for every real number, none for overflow.
inline constexpr std::int64_t max_json_exponent = 1'000'000'000;

// Nor larger documents. Requests have a limit of their own, far below.
inline constexpr std::size_t max_json_bytes = 1U << 30U;

// The canonical form of `json`, which must be one valid JSON text in UTF-8. Without the values at the `exclude`
// pointers; with `include` pointers, only an object of those that are present, each under its pointer. An array
// element that is left out does not leave a hole.
// nullopt if there is no one form: not valid JSON, duplicate member names, lone surrogates, past a limit above, or
// a pointer that is none.
std::optional<std::string> canonical_json(std::string_view json, std::span<const std::string> include = {},
                                          std::span<const std::string> exclude = {});

}  // namespace once::core
