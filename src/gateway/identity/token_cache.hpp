// Caches tokens that were verified or refused recently. Checking a signature takes tens of microseconds, and clients
// send the same token with every request, even after it has expired; a cache hit costs one hash.
//
// Each worker has one per generation, so new keys start with an empty cache. Expiry is judged at the time of each
// request.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/bytes.hpp"
#include "core/jwt.hpp"
#include "gateway/metrics.hpp"

namespace once::gateway {

class TokenCache {
 public:
  // The most entries. Refusals have separate space, so that bad tokens do not evict good ones.
  static constexpr std::size_t capacity = 4096;
  static constexpr std::size_t refused_capacity = 1024;

  TokenCache(std::shared_ptr<const JwtVerifier> verifier, Metrics& metrics);

  JwtVerifier::Verified verify(std::string_view token, Time now);
  // The index of a claim in a verified token.
  std::optional<std::size_t> index_of(std::string_view claim) const { return verifier_->index_of(claim); }

  std::size_t size() const { return young_.size() + old_.size(); }
  // How many times the verifier was called.
  std::size_t checks() const { return checks_; }
  std::size_t refused_size() const { return refused_.size() + refused_old_.size(); }

 private:
  using TokenDigest = Blob<32, struct TokenDigestTag>;  // never the token itself
  using Tokens = std::unordered_map<TokenDigest, std::shared_ptr<const VerifiedToken>>;

  // Not used before `since`: if the clock is set back, a token that had expired may be valid again.
  struct Refusal {
    TokenFault fault;
    Time since;
  };
  using Refusals = std::unordered_map<TokenDigest, Refusal>;

  JwtVerifier::Verified look_up(std::string_view token, Time now);
  std::shared_ptr<const VerifiedToken> find(const TokenDigest& digest);
  void keep(const TokenDigest& digest, std::shared_ptr<const VerifiedToken> token);
  std::optional<TokenFault> refused_before(const TokenDigest& digest, Time now) const;
  void keep_refusal(const TokenDigest& digest, TokenFault fault, Time now);

  std::shared_ptr<const JwtVerifier> verifier_;
  Metrics& metrics_;
  // Two halves: when the young one is full, the old one is dropped and the young one takes its place. A hit moves an
  // entry to the young half.
  Tokens young_;
  Tokens old_;
  Refusals refused_;
  Refusals refused_old_;
  std::size_t checks_ = 0;
};

}  // namespace once::gateway
