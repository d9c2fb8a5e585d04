// JSON Web Tokens (RFC 7519, signed as in RFC 7515): verifies signature, audience and time, and returns the claims that
// identify the caller. The time is an argument; nothing here depends on requests.
//
// A key has one algorithm (base/signature.hpp) and a token's `alg` must name it. So `none`, or a public key used as a
// secret, cannot be expressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/signature.hpp"
#include "core/policy.hpp"

namespace once::core {

inline constexpr std::size_t max_token_bytes = 8192;
// The longest claim that may identify a caller: claims are kept as long as the token.
inline constexpr std::size_t max_claim_bytes = 1024;
// The limit for all key sets together.
inline constexpr std::size_t max_jwt_keys = 64;
// The most keys that are tried for a token that does not name one: a bad token must not cost 64 checks.
inline constexpr std::size_t max_tried_keys = 4;

enum class TokenFault : std::uint8_t {
  too_large,
  malformed,
  bad_header,
  critical,
  unknown_key,
  wrong_algorithm,
  bad_signature,
  bad_payload,
  no_expiry,
  expired,
  not_yet_valid,
  issued_later,
  wrong_issuer,
  wrong_audience,
  unusable_claim,
};

// Describes the fault to the token's developer. Contains nothing of the token or the keys.
std::string_view describe(TokenFault fault);

struct JwtKey {
  SignatureKey key;
  std::string id;  // `kid`; empty: the key has none
};

struct JwtRules {
  std::string issuer;                 // empty: any
  std::vector<std::string> audience;  // one of these; empty: any
  Required expiry = Required::yes;    // whether a token must have `exp`
};

// The contents of a verified token.
struct VerifiedToken {
  Time not_before = Time::min();  // `nbf`, less the leeway
  Time issued = Time::min();      // `iat`, less the leeway
  Time until = Time::max();       // `exp` plus the leeway; expired from this time on
  std::string issuer;             // may be empty
  // In the order of the verifier's claims. Strings keep their JSON quotes, so that "1" differs from 1; nullopt: absent
  // or null.
  std::vector<std::optional<std::string>> claims;
};

class JwtVerifier {
 public:
  using Verified = std::expected<std::shared_ptr<const VerifiedToken>, TokenFault>;

  // `claims` are names such as "sub", or JSON pointers such as "/org/id".
  JwtVerifier(const std::vector<JwtKey>& keys, JwtRules rules, std::vector<std::string> claims);

  Verified verify(std::string_view token, Time now) const;

  // The index of a claim in VerifiedToken::claims.
  std::optional<std::size_t> index_of(std::string_view claim) const;
  // Whether a token that was verified earlier is valid at `now`.
  static std::expected<void, TokenFault> timely(const VerifiedToken& token, Time now);

 private:
  struct Parts;
  struct Header;
  static std::expected<Parts, TokenFault> split(std::string_view token);
  static std::expected<Header, TokenFault> read_header(std::string_view encoded);
  std::expected<void, TokenFault> check_signature(const Header& header, const Parts& parts) const;
  Verified read_payload(std::string_view json) const;

  std::vector<JwtKey> keys_;
  JwtRules rules_;
  std::vector<std::string> claims_;
  std::vector<std::vector<std::string>> claim_tokens_;  // the pointer tokens of each
};

}  // namespace once::core
