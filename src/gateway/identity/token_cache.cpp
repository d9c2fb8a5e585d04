#include "gateway/identity/token_cache.hpp"

#include <utility>

#include "base/sha256.hpp"

namespace once::gateway {

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
  const TokenDigest digest{hash.digest()};
  if (auto known = find(digest)) {
    if (const auto timely = JwtVerifier::timely(*known, now); !timely) return std::unexpected(timely.error());
    metrics_.tokens_remembered.add();
    return known;
  }
  if (const auto fault = refused_before(digest, now)) return std::unexpected(*fault);
  JwtVerifier::Verified verified = verifier_->verify(token, now);
  ++checks_;
  if (!verified) {
    keep_refusal(digest, verified.error(), now);
    return verified;
  }
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

std::optional<TokenFault> TokenCache::refused_before(const TokenDigest& digest, Time now) const {
  for (const Refusals* refusals : {&refused_, &refused_old_}) {
    const auto found = refusals->find(digest);
    if (found != refusals->end() && now >= found->second.since) return found->second.fault;
  }
  return std::nullopt;
}

// A token that is not valid yet will become valid, and one that is malformed is cheap to refuse: neither is cached.
void TokenCache::keep_refusal(const TokenDigest& digest, TokenFault fault, Time now) {
  switch (fault) {
    case TokenFault::too_large:
    case TokenFault::malformed:
    case TokenFault::bad_header:
    case TokenFault::critical:
    case TokenFault::unknown_key:
    case TokenFault::wrong_algorithm:
    case TokenFault::not_yet_valid:
    case TokenFault::issued_later: return;
    case TokenFault::bad_signature:
    case TokenFault::bad_payload:
    case TokenFault::no_expiry:
    case TokenFault::wrong_issuer:
    case TokenFault::wrong_audience:
    case TokenFault::unusable_claim: now = Time::min(); break;
    case TokenFault::expired: break;
  }
  if (refused_.size() >= refused_capacity / 2) refused_old_ = std::exchange(refused_, Refusals());
  refused_.insert_or_assign(digest, Refusal{.fault = fault, .since = now});
}

}  // namespace once::gateway
