// The contract, part one: what each verb does and answers.
#pragma once

#include <string>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, the_first_claim_executes) {
  const OperationId id = new_id();
  const Nonce nonce = new_nonce();
  const Op op = claim(id, nonce);
  ASSERT_EXECUTES(op);
  EXPECT_EQ(op.record->state, State::started);
  EXPECT_EQ(op.record->attempt, Attempt{1});
  EXPECT_EQ(op.record->fingerprint, request);
  EXPECT_EQ(op.record->nonce, nonce);
  EXPECT_EQ(op.record->started_at, op.now);
  EXPECT_EQ(op.record->lease_until, leases_lapse() ? op.now + lease() : Time::max());
  EXPECT_EQ(op.record->expires_at, op.now + ttl());
}

TEST_P(StoreContract, lookup_shows_what_claim_wrote_and_changes_nothing) {
  const OperationId id = new_id();
  const Op claimed = claim(id, new_nonce());
  ASSERT_EXECUTES(claimed);
  for (int i = 0; i < 2; ++i) {
    const Op found = lookup(id);
    ASSERT_TRUE(found.record.has_value());
    EXPECT_EQ(found.record->state, State::started);
    EXPECT_EQ(found.record->fence, claimed.record->fence);
    expect_same(*found.record, *claimed.record);
  }
}

TEST_P(StoreContract, a_claim_while_the_owner_is_at_work_is_in_flight) {
  const Made owner = made(State::started);
  for (const OnUnknown policy : {OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}) {
    const Op op = claim(owner.id, new_nonce(), policy);
    EXPECT_EQ(op.status, OpStatus::done);
    EXPECT_EQ(op.verdict, Verdict::in_flight);
    ASSERT_TRUE(op.record.has_value());
    EXPECT_EQ(op.record->nonce, owner.nonce);
  }
}

TEST_P(StoreContract, a_succeeded_operation_is_replayed_byte_for_byte) {
  const OperationId id = new_id();
  const Nonce nonce = new_nonce();
  ASSERT_EXECUTES(claim(id, nonce));
  const Op finished = finish(id, nonce, State::succeeded, "the answer");
  EXPECT_EQ(finished.status, OpStatus::done);
  ASSERT_TRUE(finished.record.has_value());
  EXPECT_EQ(finished.record->expires_at, finished.now + ttl());
  for (int i = 0; i < 3; ++i) {
    const Op op = claim(id, new_nonce(), OnUnknown::retry);
    EXPECT_EQ(op.verdict, Verdict::replay);
    ASSERT_TRUE(op.record.has_value());
    ASSERT_NE(op.record->outcome, nullptr);
    EXPECT_EQ(*op.record->outcome, "the answer");
    EXPECT_EQ(op.record->body_kept, BodyKept::yes);
    EXPECT_EQ(op.record->attempt, Attempt{1});
    EXPECT_EQ(op.record->nonce, nonce) << "of the claim that recorded it: encryption is bound to it";
    EXPECT_EQ(op.record->expires_at, finished.record->expires_at);
  }
}

TEST_P(StoreContract, any_bytes_come_back_as_they_were) {
  std::string every_byte;
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  }
  std::string large(1U << 20U, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 + i / 251);
  for (const std::string& value : {every_byte, std::string(), std::string("\0", 1), large}) {
    const OperationId id = new_id();
    const Nonce nonce = new_nonce();
    ASSERT_EXECUTES(claim(id, nonce));
    ASSERT_EQ(finish(id, nonce, State::succeeded, value).status, OpStatus::done);
    const Op op = claim(id, new_nonce());
    EXPECT_EQ(op.verdict, Verdict::replay);
    ASSERT_TRUE(op.record.has_value());
    ASSERT_NE(op.record->outcome, nullptr);
    EXPECT_TRUE(*op.record->outcome == value) << "of " << value.size() << " bytes";
  }
}

TEST_P(StoreContract, a_success_whose_body_was_not_kept_says_so_and_never_executes_again) {
  for (const OutcomeBytes& outcome : {OutcomeBytes(), std::make_shared<const std::string>("head only")}) {
    const Made it = made(State::started);
    Op op = finish_op(it.id, it.nonce);
    op.body_kept = BodyKept::no;
    op.outcome = outcome;
    ASSERT_EQ(run(op).status, OpStatus::done);
    const Op again = claim(it.id, new_nonce(), OnUnknown::retry);
    EXPECT_EQ(again.verdict, Verdict::not_kept);
    ASSERT_TRUE(again.record.has_value());
    EXPECT_EQ(again.record->body_kept, BodyKept::no);
  }
}

TEST_P(StoreContract, a_failed_operation_executes_again_and_attempts_count_up) {
  const OperationId id = new_id();
  for (std::uint32_t attempt = 1; attempt <= 10; ++attempt) {
    const Nonce nonce = new_nonce();
    const Op op = claim(id, nonce, OnUnknown::hold);
    ASSERT_EXECUTES(op);
    EXPECT_EQ(op.record->attempt, Attempt{attempt});
    ASSERT_EQ(finish(id, nonce, State::failed).status, OpStatus::done);
  }
}

TEST_P(StoreContract, an_unknown_outcome_is_handled_by_the_policy_of_the_one_who_asks) {
  const Made it = made(State::unknown);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::takeover).verdict, Verdict::too_early);
  const Op op = claim(it.id, new_nonce(), OnUnknown::retry);
  ASSERT_EXECUTES(op);
  EXPECT_EQ(op.record->attempt, Attempt{2});
}

TEST_P(StoreContract, another_request_under_the_key_is_a_mismatch_in_every_state) {
  for (const State state : {State::started, State::succeeded, State::failed, State::unknown}) {
    const Made it = made(state);
    const Op op = claim_for(other_request, it.id);
    EXPECT_EQ(op.status, OpStatus::done);
    EXPECT_EQ(op.verdict, Verdict::mismatch);
    expect_unchanged(it);
  }
}

TEST_P(StoreContract, a_released_first_claim_is_as_if_never_made) {
  const Made it = made(State::started);
  EXPECT_EQ(release(it.id, it.nonce).status, OpStatus::done);
  EXPECT_FALSE(lookup(it.id).record.has_value());
  EXPECT_EQ(release(it.id, it.nonce).status, OpStatus::lost);
  const Op op = claim_for(other_request, it.id);
  ASSERT_EXECUTES(op);
  EXPECT_EQ(op.record->attempt, Attempt{1});
  EXPECT_GT(op.record->fence, it.record.fence);
}

TEST_P(StoreContract, a_released_later_claim_leaves_the_attempt_before_it) {
  for (const State state : {State::failed, State::unknown}) {
    const Made it = made(state);
    const Nonce nonce = new_nonce();
    const Op again = claim(it.id, nonce, OnUnknown::retry);
    ASSERT_EXECUTES(again);
    EXPECT_EQ(release(it.id, nonce).status, OpStatus::done);

    const Op found = lookup(it.id);
    ASSERT_TRUE(found.record.has_value());
    EXPECT_EQ(found.record->state, state);
    EXPECT_EQ(found.record->attempt, Attempt{1});
    EXPECT_EQ(found.record->started_at, it.record.started_at);
    EXPECT_EQ(claim_for(other_request, it.id).verdict, Verdict::mismatch);
    // Neither the one who released nor the one before it is the owner now.
    for (const Nonce& stale : {nonce, it.nonce}) {
      EXPECT_EQ(renew(it.id, stale).status, OpStatus::lost);
      EXPECT_EQ(finish(it.id, stale).status, OpStatus::lost);
      EXPECT_EQ(release(it.id, stale).status, OpStatus::lost);
    }
    EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict,
              state == State::failed ? Verdict::execute : Verdict::held);
  }
}

TEST_P(StoreContract, only_a_started_claim_can_be_released_or_renewed) {
  for (const State state : {State::succeeded, State::failed, State::unknown}) {
    const Made it = made(state);
    EXPECT_EQ(release(it.id, it.nonce).status, OpStatus::lost);
    EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::lost);
    expect_unchanged(it);
  }
}

TEST_P(StoreContract, every_owner_verb_on_nothing_is_lost) {
  const OperationId id = new_id();
  const Nonce nonce = new_nonce();
  EXPECT_EQ(renew(id, nonce).status, OpStatus::lost);
  EXPECT_EQ(finish(id, nonce).status, OpStatus::lost);
  EXPECT_EQ(release(id, nonce).status, OpStatus::lost);
  const Op found = lookup(id);
  EXPECT_EQ(found.status, OpStatus::done);
  EXPECT_FALSE(found.record.has_value());
}

TEST_P(StoreContract, results_of_an_earlier_use_of_an_op_do_not_stay) {
  const OperationId id = new_id();
  Op op = claim(id, new_nonce());
  ASSERT_TRUE(op.record.has_value());
  op = {.verb = Verb::lookup, .id = new_id(), .record = op.record, .error = "old"};
  op = run(op);
  EXPECT_EQ(op.status, OpStatus::done);
  EXPECT_FALSE(op.record.has_value());
  EXPECT_TRUE(op.error.empty());
}

}  // namespace once::contract
