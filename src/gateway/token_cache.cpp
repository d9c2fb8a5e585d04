#include "gateway/token_cache.hpp"

#include <utility>

#include "base/sha256.hpp"

namespace once {

TokenCache::TokenCache(std::shared_ptr<const JwtVerifier> verifier, Metrics& metrics)
    : verifier_(std::move(verifier)), metrics_(metrics) {}

JwtVerifier::Verified TokenCache::verify(std::string_view token, Time now) {
  JwtVerifier::Verified verified = look_up(token, now);
  if (!verified) metrics_.tokens_refused.add();
  return verified;
}

JwtVerifier::Verified TokenCache::look_up(std::string_view token, Time now) {
  if (token.size() > max_token_bytes) return std::unexpected(TokenFault::too_large);
  Sha256 hash;
  hash.update(token);
  const TokenDigest digest{hash.finish()};
  if (auto known = find(digest)) {
    if (const auto timely = JwtVerifier::timely(*known, now); !timely) return std::unexpected(timely.error());
    metrics_.tokens_remembered.add();
    return known;
  }
  JwtVerifier::Verified verified = verifier_->verify(token, now);
  if (!verified) return verified;
  metrics_.tokens_verified.add();
  keep(digest, *verified);
  return verified;
}

std::shared_ptr<const VerifiedToken> TokenCache::find(const TokenDigest& digest) {
  if (const auto found = young_.find(digest); found != young_.end()) return found->second;
  const auto found = old_.find(digest);
  if (found == old_.end()) return nullptr;
  auto token = std::move(found->second);
  old_.erase(found);
  keep(digest, token);
  return token;
}

void TokenCache::keep(const TokenDigest& digest, std::shared_ptr<const VerifiedToken> token) {
  if (young_.size() >= capacity / 2) old_ = std::exchange(young_, Tokens());
  young_.emplace(digest, std::move(token));
}

}  // namespace once
