// What one request with a key takes of the quotas of its caller and of its network. Time is given.
#include "gateway/limits/key_quota.hpp"

#include <gtest/gtest.h>

namespace once::gateway {
namespace key_quota_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds start = 1000s;

TenantTag named(char name) {
  TenantTag tag;
  tag.fill(name);
  return tag;
}

const TenantTag alice = named('a');
const TenantTag bob = named('b');
const TenantTag network = named('n');

Reply ended(Ending ending, std::size_t recorded_bytes = 0) {
  Reply reply;
  reply.ending = ending;
  reply.attempt = Attempt{1};
  reply.recorded_bytes = recorded_bytes;
  return reply;
}

class KeyQuotaTest : public testing::Test {
 protected:
  // A whole request of Alice's. The limit that refused its key, if one did; a key that the store knows goes on.
  std::optional<CallerLimit> ask(Ending ending, std::size_t recorded_bytes = 0) {
    KeyQuota quota(callers_, networks_, limits_);
    if (limits_.caller.any() && !quota.begin(alice, start)) return CallerLimit::in_flight;
    if (limits_.address.any()) quota.charge(network);
    const auto refusal = quota.take_key(start);
    if (refusal && ending != Ending::replayed) return refusal->limit;
    quota.settle(ended(ending, recorded_bytes), 1h, start);
    return refusal ? std::optional(refusal->limit) : std::nullopt;
  }

  CallerTable callers_;
  CallerTable networks_;
  Limits limits_;
};

TEST_F(KeyQuotaTest, nothing_is_limited_by_default) {
  KeyQuota quota(callers_, networks_, limits_);
  quota.charge(std::nullopt);
  EXPECT_FALSE(quota.is_limited());
  EXPECT_EQ(quota.take_key(start), std::nullopt);
  quota.settle(ended(Ending::executed, 100), 1h, start);
  EXPECT_EQ(callers_.size() + networks_.size(), 0U);
}

TEST_F(KeyQuotaTest, a_request_is_at_work_until_it_ends) {
  limits_.caller.in_flight = 1;
  {
    KeyQuota first(callers_, networks_, limits_);
    EXPECT_TRUE(first.begin(alice, start));
    EXPECT_TRUE(first.is_limited());
    KeyQuota second(callers_, networks_, limits_);
    EXPECT_FALSE(second.begin(alice, start));
    EXPECT_FALSE(second.is_limited());
    EXPECT_TRUE(second.begin(bob, start));
  }
  KeyQuota third(callers_, networks_, limits_);
  EXPECT_TRUE(third.begin(alice, start));
}

TEST_F(KeyQuotaTest, known_keys_are_given_back_to_caller_and_network) {
  limits_.caller.new_keys = limits_.address.new_keys = 1;
  limits_.caller.new_keys_burst = limits_.address.new_keys_burst = 2;
  for (const Ending known : {Ending::replayed, Ending::in_flight, Ending::mismatch}) {
    EXPECT_EQ(ask(known), std::nullopt);
  }
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::new_keys);
}

TEST_F(KeyQuotaTest, retries_of_a_key_that_is_held_or_has_expired_take_nothing) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  limits_.address.stored_bytes = 1000;
  for (int retry = 0; retry < 20; ++retry) {
    KeyQuota quota(callers_, networks_, limits_);
    quota.charge(network);
    ASSERT_EQ(quota.take_key(start), std::nullopt);
    Reply reply;
    reply.ending = retry % 2 == 0 ? Ending::unknown : Ending::rejected;
    reply.known_key = true;
    quota.settle(reply, 1h, start);
  }
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, a_later_attempt_is_of_a_known_key) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  KeyQuota quota(callers_, networks_, limits_);
  quota.charge(network);
  EXPECT_EQ(quota.take_key(start), std::nullopt);
  Reply second = ended(Ending::executed);
  second.attempt = Attempt{2};
  quota.settle(second, 1h, start);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, a_key_that_the_network_refuses_is_given_back_to_the_caller) {
  limits_.caller.new_keys = limits_.caller.new_keys_burst = 1;
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  KeyQuota other(callers_, networks_, limits_);
  other.charge(network);
  EXPECT_EQ(other.take_key(start), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
  limits_.address.new_keys = 0;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
}

TEST_F(KeyQuotaTest, retries_over_the_limit_make_no_room_for_new_keys) {
  limits_.address.new_keys = limits_.address.new_keys_burst = 1;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::replayed), CallerLimit::address_new_keys) << "and goes on, because the store knows the key";
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, retries_over_the_limit_of_the_caller_make_no_room_in_the_network) {
  limits_.caller.new_keys = limits_.caller.new_keys_burst = 1;
  limits_.address.new_keys = limits_.address.new_keys_burst = 2;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::replayed), CallerLimit::new_keys);
  limits_.caller.new_keys = 0;
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_new_keys);
}

TEST_F(KeyQuotaTest, what_is_recorded_counts_until_it_expires) {
  limits_.caller.stored_bytes = 1000;
  EXPECT_EQ(ask(Ending::executed, 1000), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::stored_bytes);
  limits_.caller.stored_bytes = 0;
  limits_.address.stored_bytes = 1000;
  EXPECT_EQ(ask(Ending::executed, 700), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_stored_bytes) << "a record takes some bytes itself";
}

TEST_F(KeyQuotaTest, what_was_refused_or_passed_without_a_record_takes_no_bytes) {
  limits_.address.stored_bytes = 1;
  EXPECT_EQ(ask(Ending::rejected), std::nullopt);
  EXPECT_EQ(ask(Ending::bypassed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), std::nullopt);
  EXPECT_EQ(ask(Ending::executed), CallerLimit::address_stored_bytes);
}

}  // namespace key_quota_test
}  // namespace once::gateway
