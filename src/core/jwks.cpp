#include "core/jwks.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/base64.hpp"
#include "core/json_tree.hpp"

namespace once::core {

namespace {

// The text of a string member; empty if it is absent or no string.
std::string_view text_of(const JsonTree& key, std::string_view name) {
  const JsonTree* value = key.find(name);
  return value != nullptr && value->string() != nullptr ? std::string_view(*value->string()) : std::string_view();
}

std::string bytes_of(const JsonTree& key, std::string_view name) {
  return from_base64url(text_of(key, name)).value_or("");
}

// The signature algorithm of a key; nullopt: not supported here.
std::optional<SignatureAlgorithm> algorithm_of(const JsonTree& key) {
  const std::string_view kind = text_of(key, "kty");
  const std::string_view curve = text_of(key, "crv");
  if (kind == "RSA") return SignatureAlgorithm::rs256;
  if (kind == "EC" && curve == "P-256") return SignatureAlgorithm::es256;
  if (kind == "OKP" && curve == "Ed25519") return SignatureAlgorithm::eddsa;
  if (kind == "oct") return SignatureAlgorithm::hs256;
  return std::nullopt;
}

bool is_for_us(const JsonTree& key, SignatureAlgorithm algorithm) {
  const JsonTree* operations = key.find("key_ops");
  const auto verifies = [](const JsonTree& operation) {
    return operation.string() != nullptr && *operation.string() == "verify";
  };
  if (operations != nullptr && (operations->array() == nullptr || !std::ranges::any_of(*operations->array(), verifies)))
    return false;
  if (key.find("use") != nullptr && text_of(key, "use") != "sig") return false;
  return key.find("alg") == nullptr || text_of(key, "alg") == name_of(algorithm);
}

SignatureKey::Made key_of(const JsonTree& key, SignatureAlgorithm algorithm) {
  // A private key contains the public one, but a private key that is readable here may be readable for others.
  if (algorithm != SignatureAlgorithm::hs256 && key.find("d") != nullptr) {
    return std::unexpected("is a private key; use the public key");
  }
  switch (algorithm) {
    case SignatureAlgorithm::hs256: return SignatureKey::secret(bytes_of(key, "k"));
    case SignatureAlgorithm::rs256: return SignatureKey::rsa(bytes_of(key, "n"), bytes_of(key, "e"));
    case SignatureAlgorithm::es256: return SignatureKey::p256(bytes_of(key, "x"), bytes_of(key, "y"));
    case SignatureAlgorithm::eddsa: return SignatureKey::ed25519(bytes_of(key, "x"));
  }
  return std::unexpected("is not valid");
}

}  // namespace

std::expected<std::vector<JwtKey>, std::string> parse_jwks(std::string_view json) {
  const auto tree = JsonTree::parse(json);
  const JsonTree* listed = tree ? tree->find("keys") : nullptr;
  if (listed == nullptr || listed->array() == nullptr) {
    return std::unexpected("is not a JSON Web Key Set: an object with an array \"keys\" and no duplicate members");
  }
  std::vector<JwtKey> keys;
  std::size_t number = 0;
  for (const JsonTree& entry : *listed->array()) {
    ++number;
    const auto algorithm = algorithm_of(entry);
    if (!algorithm || !is_for_us(entry, *algorithm)) continue;
    auto key = key_of(entry, *algorithm);
    if (!key) return std::unexpected(fmt::format("has an invalid key: number {} {}", number, key.error()));
    keys.push_back({.key = *std::move(key), .id = std::string(text_of(entry, "kid"))});
  }
  if (keys.empty()) {
    return std::unexpected(
        fmt::format("has no key for verifying signatures among its {}: expected RSA, P-256, Ed25519 or oct, for no "
                    "other use and for RS256, ES256, EdDSA or HS256",
                    listed->array()->size()));
  }
  return keys;
}

}  // namespace once::core
