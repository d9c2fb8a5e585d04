// JSON Web Key Sets (RFC 7517): extracts the keys that can verify tokens.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "core/jwt.hpp"

namespace once::core {

// Keys of another kind, curve or algorithm, and those that are not for signatures, are left out: they are for somebody
// else. The error is for people and says what is wrong; a set without any key to check with is one.
std::expected<std::vector<JwtKey>, std::string> parse_jwks(std::string_view json);

}  // namespace once::core
