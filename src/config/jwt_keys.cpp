#include "config/jwt_keys.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/secret.hpp"
#include "core/jwks.hpp"

namespace once::config {

namespace {

constexpr std::size_t largest_key_file = std::size_t{1} << 20U;
constexpr std::string_view pem_begin = "-----BEGIN ";

using Keys = std::expected<std::vector<JwtKey>, std::string>;

// The file's content determines its format, not its name.
Keys parse_keys(std::string_view text) {
  if (trim(text).starts_with('{')) return parse_jwks(text);
  if (!text.contains(pem_begin)) {
    return std::unexpected("is neither a PEM public key (-----BEGIN PUBLIC KEY-----) nor a JSON Web Key Set");
  }
  auto of_pem = SignatureKey::all_of_pem(text);
  if (!of_pem) return std::unexpected(fmt::format("has a PEM block that {}", of_pem.error()));
  std::vector<JwtKey> keys;
  for (SignatureKey& key : *of_pem) keys.push_back({.key = std::move(key), .id = ""});
  return keys;
}

Keys read_keys(const std::string& path, ConfigErrors& warnings) {
  auto file = read_file(path, largest_key_file);
  if (!file) return std::unexpected(fmt::format("jwt.keys: cannot read {}: {}", path, file.error()));
  auto keys = parse_keys(file->bytes);
  if (!keys) return std::unexpected(fmt::format("jwt.keys: {} {}", path, keys.error()));
  const bool has_secret =
      std::ranges::any_of(*keys, [](const JwtKey& key) { return key.key.algorithm() == SignatureAlgorithm::hs256; });
  if (has_secret && !file->protect.empty()) {
    warnings.push_back({"", 0, 0, fmt::format("other users can read the secret in {}; run: {}", path, file->protect)});
  }
  return keys;
}

Keys read_jwt_secret(const std::string& path, ConfigErrors& warnings) {
  auto secret = read_secret(path);
  if (!secret) return std::unexpected(fmt::format("jwt.secrets: {}", secret.error()));
  // A public key used as a secret would let any client sign tokens.
  if (secret->bytes.contains(pem_begin) || trim(secret->bytes).starts_with('{')) {
    return std::unexpected(fmt::format("jwt.secrets: {} is a key, not a secret; it belongs in jwt.keys", path));
  }
  auto key = SignatureKey::secret(secret->bytes);
  if (!key) return std::unexpected(fmt::format("jwt.secrets: the secret in {} {}", path, key.error()));
  if (!secret->warning.empty()) warnings.push_back({"", 0, 0, std::move(secret->warning)});
  return std::vector<JwtKey>{{.key = *std::move(key), .id = ""}};
}

// The claims that routes use, without duplicates.
std::vector<std::string> claims_of(const std::vector<Route>& routes) {
  std::vector<std::string> claims;
  for (const Route& route : routes) {
    for (const CallerSource& source : route.policy.caller) {
      if (source.kind != CallerSource::Kind::jwt) continue;
      if (std::ranges::find(claims, source.name) == claims.end()) claims.push_back(source.name);
    }
  }
  return claims;
}

void warn_of_untried(const std::vector<JwtKey>& keys, ConfigErrors& warnings) {
  for (const SignatureAlgorithm algorithm :
       {SignatureAlgorithm::rs256, SignatureAlgorithm::es256, SignatureAlgorithm::eddsa, SignatureAlgorithm::hs256}) {
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(keys, [&](const JwtKey& key) { return key.key.algorithm() == algorithm; }));
    if (count <= max_tried_keys) continue;
    warnings.push_back({"", 0, 0,
                        fmt::format("jwt.keys: there are {} keys for {}: a token without a kid is checked with only "
                                    "{} of them, those without a kid first",
                                    count, name_of(algorithm), max_tried_keys)});
  }
}

}  // namespace

std::expected<std::shared_ptr<const JwtVerifier>, std::string> make_verifier(const Config& config,
                                                                             ConfigErrors& warnings) {
  const JwtSettings& jwt = config.jwt;
  if (jwt.keys.empty() && jwt.secrets.empty()) return nullptr;
  std::vector<JwtKey> all;
  for (const auto& [paths, read] : {std::pair(&jwt.keys, &read_keys), {&jwt.secrets, &read_jwt_secret}}) {
    for (const std::string& path : *paths) {
      auto keys = read(path, warnings);
      if (!keys) return std::unexpected(keys.error());
      std::ranges::move(*keys, std::back_inserter(all));
    }
  }
  if (all.size() > max_jwt_keys) {
    return std::unexpected(fmt::format("jwt.keys: at most {} keys in all files, got {}", max_jwt_keys, all.size()));
  }
  warn_of_untried(all, warnings);
  return std::make_shared<const JwtVerifier>(all, jwt.rules, claims_of(config.routes));
}

}  // namespace once::config
