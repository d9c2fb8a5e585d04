// The contract, part two: who may write. Ops sent again by the same owner, and owners that lost their claim.
#pragma once

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, a_claim_repeated_with_the_same_nonce_is_the_same_claim) {
  const OperationId id = new_id();
  const Nonce nonce = new_nonce();
  const Op first = claim(id, nonce);
  ASSERT_EXECUTES(first);
  for (const OnUnknown policy : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
    const Op again = claim(id, nonce, policy);
    ASSERT_EXECUTES(again);
    EXPECT_EQ(again.record->attempt, first.record->attempt);
    EXPECT_EQ(again.record->fence, first.record->fence);
    EXPECT_EQ(again.record->started_at, first.record->started_at);
    EXPECT_EQ(again.record->lease_until, first.record->lease_until);
  }
  EXPECT_EQ(finish(id, nonce).status, OpStatus::done);
  EXPECT_EQ(claim(id, nonce).verdict, Verdict::replay);
}

// The network may hold a copy of a claim back for longer than its owner waits: the owner sends another, works and ends.
TEST_P(StoreContract, a_copy_of_a_claim_that_arrives_when_it_has_ended_claims_nothing) {
  for (const State state : {State::failed, State::unknown}) {
    const Made it = made(state);
    const Op late = claim(it.id, it.nonce, OnUnknown::retry);
    EXPECT_EQ(late.verdict, Verdict::in_flight);
    expect_unchanged(it);
    ASSERT_EXECUTES(claim(it.id, new_nonce(), OnUnknown::retry));
  }
}

TEST_P(StoreContract, a_later_claim_that_is_repeated_releases_to_the_attempt_before_and_its_copy_claims_nothing) {
  const Made it = made(State::failed);
  const Nonce nonce = new_nonce();
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Op op = claim(it.id, nonce);
    ASSERT_EXECUTES(op);
    EXPECT_EQ(op.record->attempt, Attempt{2});
  }
  ASSERT_EQ(release(it.id, nonce).status, OpStatus::done);
  EXPECT_EQ(claim(it.id, nonce).verdict, Verdict::in_flight);
  const Op found = lookup(it.id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->state, State::failed);
  EXPECT_EQ(found.record->attempt, Attempt{1});
  ASSERT_EXECUTES(claim(it.id, new_nonce()));
}

TEST_P(StoreContract, a_copy_of_a_first_claim_that_arrives_when_it_was_released_claims_nothing) {
  const Traits traits = store().traits();
  if (traits.shared == Shared::no || traits.durable == Durable::no) GTEST_SKIP() << "nothing arrives late";
  const Made it = made(State::started);
  ASSERT_EQ(release(it.id, it.nonce).status, OpStatus::done);
  EXPECT_EQ(claim(it.id, it.nonce).verdict, Verdict::in_flight);
  EXPECT_FALSE(lookup(it.id).record.has_value());
  EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::lost);
  const Op next = claim_for(other_request, it.id);
  ASSERT_EXECUTES(next);
  EXPECT_EQ(next.record->attempt, Attempt{1});
  EXPECT_GT(next.record->fence, it.record.fence);
}

// A store may refuse claims that arrive late. By its own clock; and that may be set while it runs.
TEST_P(StoreContract, a_claim_is_made_although_the_stores_clock_was_set_forwards) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_EXECUTES(claim(new_id(), new_nonce()));
    advance(20 * unit());
  }
  const Made it = made(State::failed);
  advance(2 * unit());
  const Op again = claim(it.id, new_nonce());
  ASSERT_EXECUTES(again);
  EXPECT_EQ(again.record->attempt, Attempt{2});
}

TEST_P(StoreContract, a_finish_repeated_is_done_and_changes_nothing) {
  for (const State state : {State::succeeded, State::failed, State::unknown}) {
    const Made it = made(state);
    const Op again = finish(it.id, it.nonce, state, "another value");
    EXPECT_EQ(again.status, OpStatus::done);
    ASSERT_TRUE(again.record.has_value());
    EXPECT_EQ(again.record->expires_at, it.record.expires_at);
    expect_unchanged(it);
  }
}

TEST_P(StoreContract, a_finish_that_contradicts_an_earlier_one_is_lost) {
  for (const auto& [first, second] : {std::pair(State::succeeded, State::failed),
                                      {State::succeeded, State::unknown},
                                      {State::failed, State::succeeded},
                                      {State::failed, State::unknown}}) {
    const Made it = made(first);
    EXPECT_EQ(finish(it.id, it.nonce, second, "changed").status, OpStatus::lost);
    expect_unchanged(it);
  }
}

TEST_P(StoreContract, an_owner_that_said_unknown_may_learn_more_until_somebody_takes_over) {
  const Made learned = made(State::unknown);
  EXPECT_EQ(finish(learned.id, learned.nonce, State::succeeded, "late").status, OpStatus::done);
  const Op replayed = claim(learned.id, new_nonce());
  EXPECT_EQ(replayed.verdict, Verdict::replay);
  EXPECT_EQ(*replayed.record->outcome, "late");

  const Made refuted = made(State::unknown);
  EXPECT_EQ(finish(refuted.id, refuted.nonce, State::failed).status, OpStatus::done);
  EXPECT_EQ(claim(refuted.id, new_nonce(), OnUnknown::hold).verdict, Verdict::execute);

  const Made taken = made(State::unknown);
  ASSERT_EXECUTES(claim(taken.id, new_nonce(), OnUnknown::retry));
  EXPECT_EQ(finish(taken.id, taken.nonce, State::succeeded).status, OpStatus::lost);
}

TEST_P(StoreContract, a_stale_nonce_writes_nothing_in_any_state) {
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown}) {
    const Made it = made(state);
    const Nonce stale = new_nonce();
    EXPECT_EQ(renew(it.id, stale).status, OpStatus::lost);
    EXPECT_EQ(release(it.id, stale).status, OpStatus::lost);
    for (const State final_state : {State::succeeded, State::failed, State::unknown}) {
      EXPECT_EQ(finish(it.id, stale, final_state, "stale").status, OpStatus::lost);
    }
    expect_unchanged(it);
  }
}

TEST_P(LapsingStoreContract, after_a_takeover_the_old_owner_is_fenced_off_and_the_new_outcome_stands) {
  const Made old = made(State::started);
  ASSERT_TRUE(lapse());
  const Nonce nonce = new_nonce();
  const Op taken = claim(old.id, nonce, OnUnknown::retry);
  ASSERT_EXECUTES(taken);
  EXPECT_EQ(taken.record->attempt, Attempt{2});
  EXPECT_GT(taken.record->fence, old.record.fence);

  const auto old_owner_is_fenced_off = [&] {
    EXPECT_EQ(renew(old.id, old.nonce).status, OpStatus::lost);
    EXPECT_EQ(release(old.id, old.nonce).status, OpStatus::lost);
    EXPECT_EQ(finish(old.id, old.nonce, State::succeeded, "old").status, OpStatus::lost);
    EXPECT_NE(claim(old.id, old.nonce).verdict, Verdict::execute);
  };
  old_owner_is_fenced_off();
  EXPECT_EQ(finish(old.id, nonce, State::succeeded, "new").status, OpStatus::done);
  old_owner_is_fenced_off();
  const Op replayed = claim(old.id, new_nonce());
  EXPECT_EQ(replayed.verdict, Verdict::replay);
  ASSERT_TRUE(replayed.record.has_value());
  EXPECT_EQ(*replayed.record->outcome, "new");
}

TEST_P(StoreContract, fences_grow_with_every_claim_whatever_lies_between) {
  const OperationId id = new_id();
  Fence last{0};
  for (int i = 0; i < 100; ++i) {
    const Nonce nonce = new_nonce();
    const Op op = claim(id, nonce, OnUnknown::retry);
    ASSERT_EXECUTES(op);
    EXPECT_GT(op.record->fence, last) << "claim " << i;
    last = op.record->fence;
    switch (i % 4) {
      case 0: ASSERT_EQ(release(id, nonce).status, OpStatus::done); break;
      case 1: ASSERT_EQ(finish(id, nonce, State::failed).status, OpStatus::done); break;
      case 2: ASSERT_EQ(finish(id, nonce, State::unknown).status, OpStatus::done); break;
      case 3:
        ASSERT_EQ(finish(id, nonce, i % 32 == 31 ? State::succeeded : State::failed).status, OpStatus::done);
        if (i % 32 == 31) advance(ttl() + unit());
        break;
    }
  }
}

}  // namespace once::contract
