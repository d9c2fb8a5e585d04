// The contract, part three: leases that lapse and are renewed, takeover, expiry.
#pragma once

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(LapsingStoreContract, a_lapsed_claim_is_handled_as_unknown) {
  const Made it = made(State::started);
  ASSERT_TRUE(lapse());
  EXPECT_EQ(claim_for(other_request, it.id).verdict, Verdict::mismatch);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::takeover).verdict, Verdict::too_early);
  const Op op = claim(it.id, new_nonce(), OnUnknown::retry);
  ASSERT_EXECUTES(op);
  EXPECT_EQ(op.record->attempt, Attempt{2});
}

TEST_P(StoreContract, takeover_is_due_when_its_time_has_passed_since_the_start) {
  const Made unknown = made(State::unknown);
  const Made lapsed = made(State::started);
  const bool lapses = lapse();
  if (lapses) EXPECT_EQ(claim(lapsed.id, new_nonce()).verdict, Verdict::too_early);
  EXPECT_EQ(claim(unknown.id, new_nonce()).verdict, Verdict::too_early);
  advance(takeover_after());
  EXPECT_EQ(claim(unknown.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(claim(unknown.id, new_nonce()).verdict, Verdict::execute);
  EXPECT_EQ(claim(lapsed.id, new_nonce()).verdict, lapses ? Verdict::execute : Verdict::in_flight);
}

TEST_P(StoreContract, a_released_takeover_does_not_begin_the_wait_anew) {
  const Made it = made(State::unknown);
  advance(takeover_after() + unit());
  const Nonce nonce = new_nonce();
  ASSERT_EXECUTES(claim(it.id, nonce));
  ASSERT_EQ(release(it.id, nonce).status, OpStatus::done);
  const Op again = claim(it.id, new_nonce());
  ASSERT_EXECUTES(again);
  EXPECT_EQ(again.record->attempt, Attempt{2});
}

TEST_P(LapsingStoreContract, a_released_takeover_of_a_lapsed_claim_leaves_it_unknown) {
  const Made it = made(State::started);
  ASSERT_TRUE(lapse());
  const Nonce nonce = new_nonce();
  ASSERT_EXECUTES(claim(it.id, nonce, OnUnknown::retry));
  ASSERT_EQ(release(it.id, nonce).status, OpStatus::done);
  const Op found = lookup(it.id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->state, State::unknown);
  EXPECT_EQ(found.record->attempt, Attempt{1});
  EXPECT_EQ(finish(it.id, it.nonce).status, OpStatus::lost);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
}

TEST_P(StoreContract, a_renewed_lease_begins_anew) {
  const Made it = made(State::started);
  for (int i = 0; i < 3; ++i) {
    advance(lease() - unit());
    ASSERT_EQ(renew(it.id, it.nonce).status, OpStatus::done);
    EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
  }
  if (!lapse()) return;
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::retry).verdict, Verdict::execute);
}

TEST_P(LapsingStoreContract, a_lapsed_claim_that_nobody_took_is_still_its_owners) {
  const Made renewed = made(State::started);
  const Made finished = made(State::started);
  const Made released = made(State::started);
  const Made repeated = made(State::started);
  ASSERT_TRUE(lapse());
  EXPECT_EQ(renew(renewed.id, renewed.nonce).status, OpStatus::done);
  EXPECT_EQ(claim(renewed.id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
  EXPECT_EQ(finish(finished.id, finished.nonce).status, OpStatus::done);
  EXPECT_EQ(claim(finished.id, new_nonce(), OnUnknown::retry).verdict, Verdict::replay);
  EXPECT_EQ(release(released.id, released.nonce).status, OpStatus::done);
  EXPECT_FALSE(lookup(released.id).record.has_value());
  const Op again = claim(repeated.id, repeated.nonce, OnUnknown::hold);
  ASSERT_EXECUTES(again);
  EXPECT_EQ(again.record->attempt, Attempt{1});
  EXPECT_EQ(again.record->fence, repeated.record.fence);
}

TEST_P(StoreContract, what_is_finished_is_forgotten_when_it_expires) {
  for (const State state : {State::succeeded, State::failed, State::unknown}) {
    const Made it = made(state);
    advance(ttl() - 2 * unit());
    ASSERT_TRUE(lookup(it.id).record.has_value());
    advance(3 * unit());
    EXPECT_FALSE(lookup(it.id).record.has_value());
    EXPECT_EQ(finish(it.id, it.nonce, State::succeeded).status, OpStatus::lost);
    const Op op = claim_for(other_request, it.id);
    ASSERT_EXECUTES(op);
    EXPECT_EQ(op.record->attempt, Attempt{1});
    EXPECT_GT(op.record->fence, it.record.fence);
  }
}

TEST_P(StoreContract, expiry_runs_from_the_finish) {
  const Made it = made(State::started);
  advance(lease() - unit());
  ASSERT_EQ(renew(it.id, it.nonce).status, OpStatus::done);
  ASSERT_EQ(finish(it.id, it.nonce).status, OpStatus::done);
  advance(ttl() - unit());
  EXPECT_EQ(claim(it.id, new_nonce()).verdict, Verdict::replay);
  advance(2 * unit());
  EXPECT_EQ(claim(it.id, new_nonce()).verdict, Verdict::execute);
}

// A claim asks to be kept for as long as its request may be at the backend, and an outcome for its own ttl.
TEST_P(StoreContract, an_outcome_is_kept_for_its_own_ttl_and_what_is_not_settled_for_that_of_the_claim) {
  const Duration longer = 2 * ttl();
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown}) {
    const OperationId id = new_id();
    const Nonce nonce = new_nonce();
    Op claiming = claim_op(id, nonce);
    claiming.terms.ttl = longer;
    ASSERT_EXECUTES(run(claiming));
    const bool settled = state == State::succeeded || state == State::failed;
    if (state != State::started) {
      Op end = finish_op(id, nonce, state);
      end.terms.ttl = settled ? ttl() : longer;
      ASSERT_EQ(run(end).status, OpStatus::done);
    }
    advance(ttl() + unit());
    EXPECT_EQ(lookup(id).record.has_value(), !settled);
    EXPECT_EQ(claim(id, new_nonce(), OnUnknown::hold).verdict == Verdict::execute, settled);
  }
}

TEST_P(StoreContract, terms_without_end_are_kept) {
  const OperationId id = new_id();
  const Nonce nonce = new_nonce();
  Op op = claim_op(id, nonce);
  op.terms = {.takeover_after = Duration::max(),
              .lease = Duration::max(),
              .ttl = Duration::max(),
              .tombstone = Duration::max()};
  const Op claimed = run(op);
  ASSERT_EXECUTES(claimed);
  EXPECT_EQ(claimed.record->lease_until, Time::max());
  EXPECT_EQ(claimed.record->expires_at, Time::max());
  Op renewal = owner_op(Verb::renew, id, nonce);
  renewal.terms = op.terms;
  EXPECT_EQ(run(renewal).status, OpStatus::done);
  Op unknown = finish_op(id, nonce, State::unknown);
  unknown.terms = op.terms;
  EXPECT_EQ(run(unknown).status, OpStatus::done);
  Op again = claim_op(id, new_nonce());
  again.terms = op.terms;
  EXPECT_EQ(run(again).verdict, Verdict::too_early);
  const Op found = lookup(id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->expires_at, Time::max());
  EXPECT_EQ(found.record->forget_at, Time::max());
}

}  // namespace once::contract
