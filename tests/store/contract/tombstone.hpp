// The contract, part six: keys that are remembered after their expiry.
#pragma once

#include <array>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, an_expired_key_is_remembered_as_gone_and_then_forgotten) {
  struct Case {
    State state;
    Made it;
  };
  std::array<Case, 3> cases = {
      Case{State::succeeded, {}},
      Case{State::failed, {}},
      Case{State::unknown, {}},
  };
  for (Case& each : cases) each.it = made(each.state, tombstone());
  advance(ttl() - 2 * unit());
  EXPECT_EQ(claim(cases[0].it.id, new_nonce()).verdict, Verdict::replay);
  advance(3 * unit());
  for (const Case& each : cases) {
    SCOPED_TRACE(static_cast<int>(each.state));
    for (const OnUnknown on_unknown : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
      const Op late = claim(each.it.id, new_nonce(), on_unknown);
      EXPECT_EQ(late.status, OpStatus::done);
      EXPECT_EQ(late.verdict, Verdict::gone);
    }
    EXPECT_EQ(claim_for(other_request, each.it.id).verdict, Verdict::gone);
    expect_tombstone(lookup(each.it.id), each.it.record);
  }
  advance(tombstone());
  for (const Case& each : cases) {
    EXPECT_FALSE(lookup(each.it.id).record.has_value());
    const Op op = claim_for(other_request, each.it.id);
    ASSERT_EXECUTES(op);
    EXPECT_EQ(op.record->attempt, Attempt{1});
    EXPECT_GT(op.record->fence, each.it.record.fence);
    EXPECT_EQ(op.record->forget_at, op.record->expires_at) << "the one who claims says how long it is remembered";
  }
}

TEST_P(StoreContract, nobody_writes_to_a_tombstone) {
  const Made finished = made(State::succeeded, tombstone());
  const Made unknown = made(State::unknown, tombstone());
  advance(ttl() + unit());
  EXPECT_EQ(finish(finished.id, finished.nonce).status, OpStatus::lost);
  EXPECT_EQ(finish(unknown.id, unknown.nonce).status, OpStatus::lost);
  EXPECT_EQ(release(unknown.id, unknown.nonce).status, OpStatus::lost);
  EXPECT_EQ(claim(unknown.id, unknown.nonce).verdict, Verdict::gone);
  EXPECT_EQ(claim(unknown.id, new_nonce(), OnUnknown::retry).verdict, Verdict::gone);
}

TEST_P(LapsingStoreContract, a_claim_that_lapsed_and_expired_is_a_tombstone_or_nothing_for_its_owner_too) {
  const Made remembered = made(State::started, tombstone());
  const Made gone = made(State::started);
  ASSERT_TRUE(lapse());
  advance(ttl());
  EXPECT_EQ(claim(remembered.id, new_nonce(), OnUnknown::retry).verdict, Verdict::gone);
  EXPECT_EQ(claim(remembered.id, remembered.nonce).verdict, Verdict::gone);
  for (const Made& it : {remembered, gone}) {
    EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::lost);
    EXPECT_EQ(finish(it.id, it.nonce).status, OpStatus::lost);
    EXPECT_EQ(release(it.id, it.nonce).status, OpStatus::lost);
  }
  expect_tombstone(lookup(remembered.id), remembered.record);
  EXPECT_FALSE(lookup(gone.id).record.has_value());
}

TEST_P(StoreContract, an_owner_at_work_is_no_tombstone_however_late_it_is) {
  const Made it = made(State::started, unit());
  for (Duration worked{0}; worked <= ttl() + 2 * unit(); worked += 3 * unit()) {
    advance(3 * unit());
    ASSERT_EQ(renew(it.id, it.nonce).status, OpStatus::done);
  }
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::retry).verdict, Verdict::in_flight);
  const Op finished = finish(it.id, it.nonce);
  ASSERT_EQ(finished.status, OpStatus::done);
  const Op found = lookup(it.id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->expires_at, finished.now + ttl());
  EXPECT_EQ(found.record->forget_at, found.record->expires_at + unit()) << "as long as the claim asked for";
}

TEST_P(StoreContract, a_released_takeover_is_remembered_as_long_as_it_asked_for) {
  const Made it = made(State::failed);
  const Nonce nonce = new_nonce();
  Op again = claim_op(it.id, nonce);
  again.terms.tombstone = tombstone();
  ASSERT_EXECUTES(run(again));
  ASSERT_EQ(release(it.id, nonce).status, OpStatus::done);
  const Op found = lookup(it.id);
  ASSERT_TRUE(found.record.has_value());
  EXPECT_EQ(found.record->state, State::failed);
  EXPECT_EQ(found.record->forget_at, found.record->expires_at + tombstone());
}

TEST_P(StoreContract, what_was_claimed_without_a_tombstone_leaves_none) {
  const Made it = made(State::succeeded);
  EXPECT_EQ(it.record.forget_at, it.record.expires_at);
  advance(ttl() + unit());
  Op op = claim_op(it.id, new_nonce());
  op.terms.tombstone = tombstone();
  EXPECT_EQ(run(op).verdict, Verdict::execute) << "what a later request asks for does not change it";
}

TEST_P(StoreContract, a_first_claim_that_is_released_leaves_no_tombstone) {
  const Made it = made(State::started, tombstone());
  ASSERT_EQ(release(it.id, it.nonce).status, OpStatus::done);
  EXPECT_FALSE(lookup(it.id).record.has_value());
  advance(ttl() + unit());
  EXPECT_EQ(claim(it.id, new_nonce()).verdict, Verdict::execute);
}

}  // namespace once::contract
