// Tokens that were verified or refused lately. To check a signature takes tens of microseconds and clients send the
// same token with every request, also when it has expired; to find it here takes one hash.
//
// Each worker has one for each generation of settings: with other keys it begins with nothing. What is found is judged
// by the time of asking.
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
  // Entries, at most. Refusals have room of their own, so that bad tokens push out no good ones.
  static constexpr std::size_t capacity = 4096;
  static constexpr std::size_t refused_capacity = 1024;

  TokenCache(std::shared_ptr<const JwtVerifier> verifier, Metrics& metrics);

  JwtVerifier::Verified verify(std::string_view token, Time now);
  // Where a claim is in what was verified.
  std::optional<std::size_t> index_of(std::string_view claim) const { return verifier_->index_of(claim); }

  std::size_t size() const { return young_.size() + old_.size(); }
  // How often the verifier was asked.
  std::size_t checks() const { return checks_; }
  std::size_t refused_size() const { return refused_.size() + refused_old_.size(); }

 private:
  using TokenDigest = Blob<32, struct TokenDigestTag>;  // never the token itself
  using Tokens = std::unordered_map<TokenDigest, std::shared_ptr<const VerifiedToken>>;

  // Holds from this time on: what has expired would be good again if the clock were set back.
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
  // Two halves: when the young one is full the old one is forgotten and the young one takes its place. Who is asked for
  // is young again.
  Tokens young_;
  Tokens old_;
  Refusals refused_;
  Refusals refused_old_;
  std::size_t checks_ = 0;
};

}  // namespace once::gateway
