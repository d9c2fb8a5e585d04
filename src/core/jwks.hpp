// JSON Web Key Sets (RFC 7517): extracts the keys that can verify tokens.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "core/jwt.hpp"

namespace once::core {

// Skips keys of other kinds, curves or algorithms, and keys that are not for signatures. The error describes what is
// wrong; a set without any usable key is an error.
std::expected<std::vector<JwtKey>, std::string> parse_jwks(std::string_view json);

}  // namespace once::core
