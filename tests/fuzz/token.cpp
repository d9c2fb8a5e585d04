// Tokens: what nobody signed is never good, what was signed is good for exactly what it says and in no other spelling.
// The input is a position, the JSON of the header, a line end, and the JSON of the payload. It is also read as a token
// and as a key set.
#include <string>
#include <utility>

#include "base/base64.hpp"
#include "base/sha256.hpp"
#include "core/jwks.hpp"
#include "core/jwt.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using once::base::Time;
using once::core::JwtVerifier;
using once::core::TokenFault;

constexpr std::string_view secret = "a secret that is long enough for HMAC-SHA-256";
constexpr Time now{std::chrono::seconds(1'700'000'000)};

const JwtVerifier& verifier() {
  static const JwtVerifier made = [] {
    std::vector<once::core::JwtKey> keys;
    keys.push_back({.key = *once::base::SignatureKey::secret(secret), .id = {}});
    return JwtVerifier(std::move(keys), {.issuer = "us", .audience = {"here"}}, {"sub", "/org/id"});
  }();
  return made;
}

std::string signed_token(std::string_view header, std::string_view payload) {
  std::string token = once::base::to_base64url(header) + "." + once::base::to_base64url(payload);
  once::base::HmacSha256::Stream signing = once::base::HmacSha256(secret).start();
  signing.update(token);
  const auto mac = signing.digest();
  return token + "." + once::base::to_base64url({reinterpret_cast<const char*>(mac.data()), mac.size()});
}

void check_good(const std::string& token, const once::core::VerifiedToken& verified, std::size_t position) {
  ONCE_ASSERT(token.size() <= once::core::max_token_bytes);
  ONCE_ASSERT(verified.issuer == "us" && verified.claims.size() == 2);
  ONCE_ASSERT(verified.not_before <= now && verified.issued <= now && now < verified.until);
  for (const auto& claim : verified.claims) ONCE_ASSERT(!claim || claim->size() <= once::core::max_claim_bytes + 2);
  if (verified.until != Time::max()) {
    const JwtVerifier::Verified later = verifier().verify(token, verified.until);
    ONCE_ASSERT(!later && later.error() == TokenFault::expired);
  }
  std::string changed = token;
  changed[position % changed.size()] ^= 1;
  ONCE_ASSERT(!verifier().verify(changed, now));
  ONCE_ASSERT(!verifier().verify(token + "A", now) && !verifier().verify(token + "=", now));
}

}  // namespace

FUZZ(bytes) {
  ONCE_ASSERT(!verifier().verify(bytes, now));
  if (const auto keys = once::core::parse_jwks(bytes))
    ONCE_ASSERT(!keys->empty() && keys->size() <= once::core::max_jwt_keys);

  once::fuzz::Input input(bytes);
  const auto position = input.number<std::uint16_t>();
  const std::string_view parts = input.rest();
  const std::size_t line_end = parts.find('\n');
  if (line_end == std::string_view::npos) return;
  const std::string token = signed_token(parts.substr(0, line_end), parts.substr(line_end + 1));
  if (const JwtVerifier::Verified verified = verifier().verify(token, now)) check_good(token, **verified, position);
}
