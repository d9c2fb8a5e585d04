// Base64 (RFC 4648): without padding for tokens and keys in URLs (section 5), and with padding for bytes in JSON
// (section 4). Strict: only the canonical encoding is accepted.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::base {

// nullopt for other characters, padding, an impossible length, or nonzero bits after the last byte.
std::optional<std::string> from_base64url(std::string_view text);
std::string to_base64url(std::string_view bytes);

// The same, but padding is required.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

}  // namespace once::base
