// The contract, part ten: bodies that stay in the chunks in which they were appended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

inline Op kept_in_chunks(Op finish) {
  finish.body_kept = BodyKept::in_chunks;
  return finish;
}

TEST_P(StoreContract, a_success_can_leave_its_body_in_chunks) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 1, "one"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 2, "two"), OpStatus::done);
  const Op end = kept_in_chunks(finish_op(it.id, it.nonce, State::succeeded, "final head"));
  ASSERT_EQ(run(end).status, OpStatus::done);
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), (Texts{"head", "one", "two"}));
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::succeeded);
  EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
  ASSERT_NE(op.record->outcome, nullptr);
  EXPECT_EQ(*op.record->outcome, "final head");
  EXPECT_EQ(texts(read(it.id, 2)), Texts{"two"});

  const Op retry = claim(it.id, new_nonce());
  EXPECT_EQ(retry.verdict, Verdict::replay);
  ASSERT_TRUE(retry.record.has_value());
  EXPECT_EQ(retry.record->body_kept, BodyKept::in_chunks);
  ASSERT_NE(retry.record->outcome, nullptr);
  EXPECT_EQ(*retry.record->outcome, "final head");
  EXPECT_EQ(lookup(it.id).record.value_or(Record()).body_kept, BodyKept::in_chunks);
}

TEST_P(StoreContract, a_finish_freezes_the_chunks) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 1, "one"), OpStatus::done);
  const Op end = kept_in_chunks(finish_op(it.id, it.nonce, State::succeeded, "final head"));
  ASSERT_EQ(run(end).status, OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 2, "too late"), OpStatus::lost);
  EXPECT_EQ(append(it.id, it.nonce, 0, "too late"), OpStatus::lost);
  EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::lost);
  // Repeated: done, and says what stands.
  const Op again = run(end);
  EXPECT_EQ(again.status, OpStatus::done);
  ASSERT_TRUE(again.record.has_value());
  ASSERT_NE(again.record->outcome, nullptr);
  EXPECT_EQ(*again.record->outcome, "final head");
  EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one"}));
}

TEST_P(StoreContract, an_unknown_outcome_can_still_become_a_success_in_chunks) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  ASSERT_EQ(finish(it.id, it.nonce, State::unknown).status, OpStatus::done);
  ASSERT_EQ(run(kept_in_chunks(finish_op(it.id, it.nonce))).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
}

TEST_P(StoreContract, a_body_that_is_not_kept_leaves_no_chunks) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  Op end = finish_op(it.id, it.nonce);
  end.body_kept = BodyKept::no;
  ASSERT_EQ(run(end).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(claim(it.id, new_nonce()).verdict, Verdict::not_kept);
}

TEST_P(StoreContract, kept_chunks_expire_with_their_record) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  ASSERT_EQ(run(kept_in_chunks(finish_op(it.id, it.nonce))).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
  advance(ttl() + unit());
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{});
  EXPECT_FALSE(op.record.has_value());
  const Nonce next = new_nonce();
  ASSERT_EXECUTES(claim(it.id, next));
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(append(it.id, next, 0, "next"), OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"next"});
}

TEST_P(StoreContract, a_tombstone_has_no_chunks) {
  const Made it = made(State::started, tombstone());
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  ASSERT_EQ(run(kept_in_chunks(finish_op(it.id, it.nonce))).status, OpStatus::done);
  advance(ttl() + unit());
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{});
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::tombstone);
}

TEST_P(StoreContract, an_operator_who_forgets_a_key_drops_its_kept_chunks) {
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  ASSERT_EQ(run(kept_in_chunks(finish_op(it.id, it.nonce))).status, OpStatus::done);
  ASSERT_EQ(forget(it.id, it.nonce, State::succeeded).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{});
  const Nonce next = new_nonce();
  ASSERT_EXECUTES(claim(it.id, next));
  EXPECT_EQ(append(it.id, next, 0, "next"), OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"next"});
}

}  // namespace once::contract
