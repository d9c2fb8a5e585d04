// What the background of a guard does when, without its thread: the times are arguments.
#include "guard/claim_upkeep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/memory/memory_store.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::guard {
namespace claim_upkeep_test {

using namespace std::chrono_literals;
using support::ManualClock;

class Upkeep : public testing::Test {
 protected:
  Op claim(std::uint8_t key, Duration lease) {
    Op op{.verb = Verb::claim, .terms = {.lease = lease, .ttl = 1h}};
    op.id.bytes.fill(key);
    op.nonce.bytes.fill(++nonces_);
    run(op);
    EXPECT_EQ(op.verdict, Verdict::execute);
    return op;
  }
  std::uint64_t keep(const Op& claim, Lease& lease) {
    LeaseSteps steps;
    steps.start(claim, clock.now(), nullptr);
    return upkeep.keep(lease, steps, now());
  }
  void run(Op& op) {
    Op* const batch[] = {&op};
    store.execute(batch);
  }
  void run(ClaimUpkeep::Due& due) {
    for (const auto& batch : due.batches()) store.execute(batch);
    upkeep.ended(due, now());
    upkeep.answered(due, now());
  }
  std::chrono::nanoseconds now() const { return clock.running(); }

  ManualClock clock;
  memory::MemoryStore store{clock, {.shared = Shared::yes}};
  ClaimUpkeep upkeep{store, clock};

 private:
  std::uint8_t nonces_ = 0;
};

TEST_F(Upkeep, a_lease_is_renewed_when_a_third_of_it_is_over) {
  const Op owner = claim(1, 9s);
  Lease lease{.id = owner.id, .nonce = owner.nonce};
  keep(owner, lease);
  EXPECT_EQ(upkeep.until_next(now()), 3s);
  clock.advance(2999ms);
  EXPECT_TRUE(upkeep.due(now()).empty());
  clock.advance(1ms);
  ClaimUpkeep::Due due = upkeep.due(now());
  ASSERT_EQ(due.renewals.size(), 1U);
  EXPECT_EQ(due.renewals[0].op.nonce, owner.nonce);
  run(due);
  EXPECT_EQ(upkeep.until_next(now()), 3s);
  EXPECT_FALSE(lease.lost);
}

TEST_F(Upkeep, a_shorter_lease_is_due_before_a_longer_one) {
  const Op long_one = claim(1, 30s);
  Lease long_lease{.id = long_one.id, .nonce = long_one.nonce};
  keep(long_one, long_lease);
  const Op short_one = claim(2, 3s);
  LeaseSteps steps;
  steps.start(short_one, clock.now(), nullptr);
  EXPECT_EQ(upkeep.is_next(steps, now()), ClaimUpkeep::Wake::yes);
  Lease short_lease{.id = short_one.id, .nonce = short_one.nonce};
  upkeep.keep(short_lease, steps, now());
  EXPECT_EQ(upkeep.until_next(now()), 1s);
  LeaseSteps longer;
  longer.start(claim(3, 9s), clock.now(), nullptr);
  EXPECT_EQ(upkeep.is_next(longer, now()), ClaimUpkeep::Wake::no);
}

TEST_F(Upkeep, a_renewal_that_failed_is_tried_again_soon) {
  const Op owner = claim(1, 9s);
  Lease lease{.id = owner.id, .nonce = owner.nonce};
  keep(owner, lease);
  clock.advance(3s);
  ClaimUpkeep::Due due = upkeep.due(now());
  ASSERT_EQ(due.renewals.size(), 1U);
  answer_failed(due.renewals[0].op, StoreFault::unavailable, "down");
  upkeep.answered(due, now());
  EXPECT_EQ(upkeep.until_next(now()), 300ms);
  EXPECT_FALSE(lease.lost);
}

TEST_F(Upkeep, running_work_learns_that_its_claim_is_lost) {
  const Op owner = claim(1, 1s);
  Lease lease{.id = owner.id, .nonce = owner.nonce};
  keep(owner, lease);
  clock.advance(2s);
  Op other{
      .verb = Verb::claim, .id = owner.id, .terms = {.on_unknown = core::OnUnknown::retry, .lease = 1s, .ttl = 1h}};
  other.nonce.bytes.fill(0xee);
  run(other);
  ASSERT_EQ(other.verdict, Verdict::execute);
  ClaimUpkeep::Due due = upkeep.due(now());
  run(due);
  EXPECT_TRUE(lease.lost);
  EXPECT_GT(upkeep.until_next(now()), 30min) << "nothing is renewed any more";
}

// An old owner's end is still tried while a new owner of the operation renews.
TEST_F(Upkeep, no_batch_has_an_operation_twice) {
  const Op owner = claim(1, 3s);
  Lease lease{.id = owner.id, .nonce = owner.nonce};
  keep(owner, lease);
  Op end{.verb = Verb::release, .id = owner.id, .terms = owner.terms};
  end.nonce.bytes.fill(0xee);
  ASSERT_EQ(upkeep.end(end, Stands::perhaps, now()), ClaimUpkeep::Wake::yes);
  clock.advance(1s);
  ClaimUpkeep::Due due = upkeep.due(now());
  const auto batches = due.batches();
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches[0].front()->verb, Verb::renew);
  EXPECT_EQ(batches[1].front()->verb, Verb::release);
}

TEST_F(Upkeep, an_end_that_came_through_is_reported_once) {
  const Op owner = claim(1, 3s);
  ASSERT_EQ(upkeep.end(store::end_of(owner, Verb::release, owner.nonce), Stands::yes, now()), ClaimUpkeep::Wake::yes);
  clock.advance(1s);
  ClaimUpkeep::Due due = upkeep.due(now());
  for (const auto& batch : due.batches()) store.execute(batch);
  EXPECT_THAT(upkeep.ended(due, now()), testing::ElementsAre(owner.id));
  upkeep.answered(due, now());
  EXPECT_GT(upkeep.until_next(now()), 30min);
}

}  // namespace claim_upkeep_test
}  // namespace once::guard
