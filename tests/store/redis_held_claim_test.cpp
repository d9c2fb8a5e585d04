// Claims that reach Redis when nobody waits for them any more.
#include <fmt/format.h>

#include "tests/store/held_claim.hpp"
#include "tests/store/redis_harness.hpp"

namespace once::redis_test {
namespace redis_held_claim_test {

contract::HeldClaims redis() {
  return {
      .server = first_host().port, .claims = "EVALSHA", .open = [](std::uint16_t port, const ServerSettings& settings) {
        return open_store(fmt::format("redis://127.0.0.1:{}", port), settings);
      }};
}

class RedisHeldClaim : public RedisAlone {};

TEST_F(RedisHeldClaim, claims_nothing_where_nothing_is) {
  contract::HeldClaim(redis()).arrives_where_nothing_is();
}

TEST_F(RedisHeldClaim, claims_nothing_after_a_later_claim_has_ended) {
  contract::HeldClaim(redis()).arrives_after_a_later_one();
}

}  // namespace redis_held_claim_test
}  // namespace once::redis_test
