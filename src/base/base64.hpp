// Base64 (RFC 4648): as tokens and keys are written in URLs, without padding (section 5), and as JSON carries bytes,
// with it (section 4). Strict: bytes have one spelling, so a text that decodes is the only one for what it holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace once {

// nullopt for any other character, padding, a length that cannot be, or bits past the last byte that are not 0.
std::optional<std::string> from_base64url(std::string_view text);
std::string to_base64url(std::string_view bytes);

// The same, but that the padding must be there.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

}  // namespace once
