// Tokens that were verified before: found again, never longer than they are good, and never more than there is room
// for.
#include "gateway/identity/token_cache.hpp"

#include <gtest/gtest.h>

#include "tests/unit/support/token_signer.hpp"

namespace once::gateway::token_cache_test {

using std::chrono::seconds;

const Time now = Time(seconds(1'700'000'000));

std::shared_ptr<const JwtVerifier> verifier() {
  return std::make_shared<const JwtVerifier>(std::vector<JwtKey>{{.key = *SignatureKey::secret(test_secret), .id = ""}},
                                             JwtRules(), std::vector<std::string>{"sub"});
}

std::string token_of(int user, std::string_view claims = "") {
  return hs256_token(R"({"exp":1700000600,"sub":")" + std::to_string(user) + "\"" + std::string(claims) + "}");
}

struct TokenCacheTest : testing::Test {
  Metrics metrics;
  TokenCache cache{verifier(), metrics};
};

TEST_F(TokenCacheTest, a_signature_is_checked_once) {
  for (int i = 0; i < 3; ++i) {
    const auto token = cache.verify(token_of(1), now);
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ((*token)->claims.at(0), "\"1\"");
  }
  EXPECT_EQ(metrics.tokens_verified.value(), 1U);
  EXPECT_EQ(metrics.tokens_remembered.value(), 2U);
}

TEST_F(TokenCacheTest, what_is_remembered_is_no_longer_good_than_the_token) {
  const std::string token = token_of(1, R"(,"nbf":1700000000)");
  ASSERT_TRUE(cache.verify(token, now + seconds(629)).has_value());
  EXPECT_EQ(cache.verify(token, now + seconds(630)).error(), TokenFault::expired);
  EXPECT_EQ(cache.verify(token, now - seconds(31)).error(), TokenFault::not_yet_valid);
  EXPECT_EQ(metrics.tokens_refused.value(), 2U);
}

TEST_F(TokenCacheTest, a_refusal_is_remembered_where_the_token_alone_decides) {
  const std::string forged = token_of(1) + "AAAA";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.verify(forged, now).error(), TokenFault::bad_signature);
  EXPECT_EQ(cache.checks(), 1U);
  EXPECT_EQ(metrics.tokens_refused.value(), 3U);
  EXPECT_EQ(cache.verify("x", now).error(), TokenFault::malformed);
  EXPECT_EQ(cache.verify(std::string(max_token_bytes + 1, 'x'), now).error(), TokenFault::too_large);
  EXPECT_EQ(cache.refused_size(), 1U);
  EXPECT_EQ(cache.size(), 0U);
}

TEST_F(TokenCacheTest, a_refusal_for_the_time_of_day_holds_for_that_time_only) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cache.verify(token_of(1), now + seconds(700 + i)).error(), TokenFault::expired);
  EXPECT_EQ(cache.checks(), 1U);
  EXPECT_TRUE(cache.verify(token_of(1), now).has_value()) << "the clock was set right";
  const std::string later = token_of(2, R"(,"nbf":1700000100)");
  EXPECT_EQ(cache.verify(later, now).error(), TokenFault::not_yet_valid);
  EXPECT_TRUE(cache.verify(later, now + seconds(100)).has_value());
}

TEST_F(TokenCacheTest, refusals_are_bounded_and_push_out_nothing_good) {
  ASSERT_TRUE(cache.verify(token_of(0), now).has_value());
  for (int user = 0; user < static_cast<int>(TokenCache::refused_capacity) * 3; ++user) {
    ASSERT_EQ(cache.verify(token_of(user) + "AAAA", now).error(), TokenFault::bad_signature);
    ASSERT_LE(cache.refused_size(), TokenCache::refused_capacity);
  }
  ASSERT_TRUE(cache.verify(token_of(0), now).has_value());
  EXPECT_EQ(metrics.tokens_verified.value(), 1U);
}

TEST_F(TokenCacheTest, the_latest_stay) {
  constexpr int many = static_cast<int>(TokenCache::capacity) * 2;
  for (int user = 0; user < many; ++user) {
    ASSERT_TRUE(cache.verify(token_of(user), now).has_value());
    ASSERT_TRUE(cache.verify(token_of(0), now).has_value());  // asked for all the time
    ASSERT_LE(cache.size(), TokenCache::capacity);
  }
  EXPECT_EQ(metrics.tokens_verified.value(), static_cast<std::uint64_t>(many));
  const std::uint64_t before = metrics.tokens_remembered.value();
  EXPECT_TRUE(cache.verify(token_of(many - 1), now).has_value());
  EXPECT_EQ(metrics.tokens_remembered.value(), before + 1);
  EXPECT_TRUE(cache.verify(token_of(1), now).has_value());
  EXPECT_EQ(metrics.tokens_remembered.value(), before + 1);
}

}  // namespace once::gateway::token_cache_test
