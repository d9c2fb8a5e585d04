// The contract, part six: claims that are held outside of this process. Their leases count in every store, for their
// owner can die while the store's process lives.
#pragma once

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, outside_owner_has_the_lease_that_it_asked_for) {
  const OperationId id = new_id();
  const Op op = claim_outside(id, new_nonce());
  ASSERT_EXECUTES(op);
  EXPECT_EQ(op.record->lease_until, op.record->started_at + lease());
  EXPECT_EQ(claim_outside(id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
}

TEST_P(StoreContract, outside_owner_that_died_is_taken_over_when_that_is_due_and_its_result_refused) {
  const Made dead = held_outside();
  advance(lease() + unit());
  EXPECT_EQ(claim_outside(dead.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(claim_outside(dead.id, new_nonce()).verdict, Verdict::too_early);
  advance(takeover_after() - lease());
  const Nonce nonce = new_nonce();
  const Op taken = claim_outside(dead.id, nonce);
  ASSERT_EXECUTES(taken);
  EXPECT_EQ(taken.record->attempt, Attempt{2});
  EXPECT_GT(taken.record->fence, dead.record.fence);
  EXPECT_EQ(renew_outside(dead.id, dead.nonce).status, OpStatus::lost);
  EXPECT_EQ(finish(dead.id, dead.nonce, State::succeeded, "stale").status, OpStatus::lost);
  EXPECT_EQ(finish(dead.id, nonce, State::succeeded, "fresh").status, OpStatus::done);
  EXPECT_EQ(*lookup(dead.id).record->outcome, "fresh");
}

TEST_P(StoreContract, outside_owner_that_renews_keeps_its_claim_past_takeover_and_expiry) {
  const Made it = held_outside();
  for (Duration worked{0}; worked <= ttl(); worked += 3 * unit()) {
    advance(3 * unit());
    ASSERT_EQ(renew_outside(it.id, it.nonce).status, OpStatus::done);
    ASSERT_EQ(claim_outside(it.id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
  }
  EXPECT_EQ(finish(it.id, it.nonce).status, OpStatus::done);
  EXPECT_EQ(claim_outside(it.id, new_nonce()).verdict, Verdict::replay);
}

TEST_P(StoreContract, outside_owner_that_lapsed_and_nobody_took_over_may_renew_and_finish) {
  const Made renewed = held_outside();
  const Made finished = held_outside();
  advance(lease() + unit());
  EXPECT_EQ(renew_outside(renewed.id, renewed.nonce).status, OpStatus::done);
  EXPECT_EQ(claim_outside(renewed.id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
  EXPECT_EQ(finish(finished.id, finished.nonce).status, OpStatus::done);
}

TEST_P(StoreContract, outside_owner_that_lapsed_and_expired_is_as_none) {
  const Made it = held_outside();
  advance(ttl() + unit());
  EXPECT_FALSE(lookup(it.id).record.has_value());
  EXPECT_EQ(renew_outside(it.id, it.nonce).status, OpStatus::lost);
  const Op again = claim_outside(it.id, new_nonce());
  ASSERT_EXECUTES(again);
  EXPECT_EQ(again.record->attempt, Attempt{1});
}

}  // namespace once::contract
