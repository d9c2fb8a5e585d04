// Keys that verify signatures. The kind of key determines its one algorithm, so a message cannot make a public key be
// used as a secret, or turn verification off. It cannot sign.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/sha256.hpp"

struct evp_pkey_st;

namespace once::base {

// Named as in RFC 7518 and RFC 8037.
enum class SignatureAlgorithm : std::uint8_t {
  hs256,  // HMAC-SHA-256 under a secret
  rs256,  // RSA, PKCS #1 1.5, SHA-256
  es256,  // ECDSA on P-256, SHA-256; r and s, 32 bytes each
  eddsa,  // Ed25519
};
std::string_view name_of(SignatureAlgorithm algorithm);

// Other RSA sizes are refused: smaller keys can be broken, larger ones take too much time per request.
inline constexpr int least_rsa_bits = 2048;
inline constexpr int most_rsa_bits = 8192;
// RFC 7518: a secret for HMAC-SHA-256 is at least as long as its result.
inline constexpr std::size_t shortest_mac_secret = 32;

// Copies share the key. Any number of threads may use it at once.
class SignatureKey {
 public:
  // The error reads as the end of a sentence that begins "the key ".
  using Made = std::expected<SignatureKey, std::string>;

  static Made secret(std::string_view bytes);
  // Numbers are big-endian, as in JSON Web Keys.
  static Made rsa(std::string_view modulus, std::string_view exponent);
  static Made p256(std::string_view x, std::string_view y);
  static Made ed25519(std::string_view bytes);
  // Parses every "-----BEGIN PUBLIC KEY-----" block of a text; at least one, and no other kind of PEM block.
  static std::expected<std::vector<SignatureKey>, std::string> all_of_pem(std::string_view text);

  SignatureAlgorithm algorithm() const { return algorithm_; }
  bool verifies(std::string_view message, std::string_view signature) const;

 private:
  using PublicKey = std::shared_ptr<evp_pkey_st>;

  SignatureKey(SignatureAlgorithm algorithm, std::variant<HmacSha256, PublicKey> key)
      : algorithm_(algorithm), key_(std::move(key)) {}
  static Made of_public(PublicKey key);

  SignatureAlgorithm algorithm_;
  std::variant<HmacSha256, PublicKey> key_;
};

}  // namespace once::base
