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

// Deeper documents have no canonical form. This bounds the stack, and the copying caused by hostile nesting of objects
// in reverse order; common parsers also stop at 64.
inline constexpr std::size_t max_json_depth = 64;
// Larger exponents have no canonical form. Enough for every real number, and no overflow.
inline constexpr std::int64_t max_json_exponent = 1'000'000'000;

// Larger documents have no canonical form. Requests have their own, much lower limit.
inline constexpr std::size_t max_json_bytes = 1U << 30U;

// The canonical form of `json`, which must be one valid JSON text in UTF-8. Values at the `exclude` pointers are left
// out. With `include` pointers, the result is an object with only those values that are present, each under its
// pointer. An excluded array element leaves no hole. nullopt if there is no canonical form: invalid JSON, duplicate
// member names, lone surrogates, a limit above is exceeded, or a pointer is invalid.
std::optional<std::string> canonical_json(std::string_view json, std::span<const std::string> include = {},
                                          std::span<const std::string> exclude = {});

}  // namespace once::core
