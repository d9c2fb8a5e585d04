// The contract, part nine: responses that are recorded as they stream, chunk by chunk.
#pragma once

#include <string>
#include <vector>

#include "tests/store/contract/fixture.hpp"

namespace once::contract {

TEST_P(StoreContract, chunks_are_read_in_order_and_from_any_number) {
  const Made it = made(State::started);
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
  EXPECT_EQ(append(it.id, it.nonce, 1, "one"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 2, "two"), OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one", "two"}));
  EXPECT_EQ(texts(read(it.id, 1)), (Texts{"one", "two"}));
  EXPECT_EQ(texts(read(it.id, 3)), Texts{});
  EXPECT_EQ(texts(read(it.id, 1000)), Texts{});
}

TEST_P(StoreContract, a_read_finds_the_record_as_a_lookup_does) {
  EXPECT_FALSE(read(new_id()).record.has_value());
  const Made it = appended({"head"});
  const Op op = read(it.id);
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::started);
  EXPECT_EQ(op.record->nonce, it.nonce);
  EXPECT_EQ(op.record->attempt, Attempt{1});
  EXPECT_EQ(op.record->started_at, it.record.started_at);
}

TEST_P(StoreContract, a_read_stops_before_it_exceeds_its_limit_but_not_before_the_first_chunk) {
  const Made it =
      appended({std::string(1000, 'a'), std::string(1000, 'b'), std::string(1000, 'c'), std::string(1000, 'd')});
  EXPECT_EQ(read(it.id, 0, 1).chunks.size(), 1U);
  EXPECT_EQ(read(it.id, 0, 2500).chunks.size(), 2U);
  EXPECT_EQ(read(it.id, 2, 2500).chunks.size(), 2U);
  EXPECT_EQ(texts(read(it.id, 3, 1)), Texts{std::string(1000, 'd')});
}

TEST_P(StoreContract, a_repeated_append_adds_nothing) {
  const Made it = made(State::started);
  for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 1, "one"), OpStatus::done);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one"}));
}

// A store may refuse it, or keep it where no reader comes.
TEST_P(StoreContract, a_chunk_after_one_that_is_missing_is_not_read) {
  const Made it = made(State::started);
  append(it.id, it.nonce, 2, "two");
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  append(it.id, it.nonce, 3, "three");
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
}

TEST_P(StoreContract, any_bytes_of_a_chunk_come_back_as_they_were) {
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) every_byte.push_back(static_cast<char>(byte));
  std::string large(std::size_t{256} << 10U, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 + i / 251);
  const Texts all = {every_byte, std::string("\0", 1), large, "end"};
  const Made it = appended(all);
  EXPECT_TRUE(texts(read(it.id)) == all);
}

TEST_P(StoreContract, only_the_owner_of_a_started_claim_appends) {
  EXPECT_EQ(append(new_id(), new_nonce(), 0, "to nothing"), OpStatus::lost);
  const Made it = made(State::started);
  EXPECT_EQ(append(it.id, it.nonce, 0, "head"), OpStatus::done);
  EXPECT_EQ(append(it.id, new_nonce(), 1, "by another"), OpStatus::lost);
  EXPECT_EQ(append(it.id, new_nonce(), 0, "by another"), OpStatus::lost);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
  for (const State state : {State::succeeded, State::failed, State::unknown}) {
    const Made ended = made(state);
    EXPECT_EQ(append(ended.id, ended.nonce, 0, "too late"), OpStatus::lost);
    EXPECT_EQ(texts(read(ended.id)), Texts{});
  }
}

TEST_P(StoreContract, a_success_replaces_the_chunks_with_the_whole_outcome) {
  const Made it = appended({"head", "one"});
  ASSERT_EQ(finish(it.id, it.nonce, State::succeeded, "all of it").status, OpStatus::done);
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{});
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::succeeded);
  ASSERT_NE(op.record->outcome, nullptr);
  EXPECT_EQ(*op.record->outcome, "all of it");
  EXPECT_EQ(append(it.id, it.nonce, 2, "too late"), OpStatus::lost);
}

TEST_P(StoreContract, an_unknown_outcome_keeps_what_came_of_it) {
  const Made it = appended({"head"});
  Op unknown = finish_op(it.id, it.nonce, State::unknown);
  unknown.outcome = nullptr;
  ASSERT_EQ(run(unknown).status, OpStatus::done);
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{"head"});
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::unknown);
  EXPECT_EQ(append(it.id, it.nonce, 1, "after the end"), OpStatus::lost);
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
  // The owner learned how it ended after all.
  ASSERT_EQ(finish(it.id, it.nonce, State::succeeded, "all of it").status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{});
}

TEST_P(StoreContract, chunks_of_one_attempt_are_not_read_in_the_next) {
  const Made it = appended({"old head", "old"});
  ASSERT_EQ(finish(it.id, it.nonce, State::unknown).status, OpStatus::done);
  const Nonce second = new_nonce();
  ASSERT_EXECUTES(claim(it.id, second, OnUnknown::retry));
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(append(it.id, it.nonce, 2, "by the first owner"), OpStatus::lost);
  EXPECT_EQ(append(it.id, second, 0, "new head"), OpStatus::done);
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{"new head"});
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->nonce, second);
}

TEST_P(StoreContract, chunks_go_with_their_record_and_are_not_those_of_the_next) {
  enum class Goes : std::uint8_t { at_once, expires, forgotten };
  struct Row {
    std::string_view story;
    State end;  // a success leaves its body in the chunks; started: a release
    Goes goes;
  };
  for (const Row& row : {Row{"a failure drops them", State::failed, Goes::at_once},
                         {"a release drops them", State::started, Goes::at_once},
                         {"those of an unknown outcome expire", State::unknown, Goes::expires},
                         {"an operator forgets those of an unknown outcome", State::unknown, Goes::forgotten},
                         {"kept ones expire", State::succeeded, Goes::expires},
                         {"an operator forgets kept ones", State::succeeded, Goes::forgotten}}) {
    SCOPED_TRACE(row.story);
    const Made it = appended({"head", "one"});
    const bool released = row.end == State::started;
    ASSERT_EQ(run(released                      ? owner_op(Verb::release, it.id, it.nonce)
                  : row.end == State::succeeded ? keep_op(it)
                                                : finish_op(it.id, it.nonce, row.end))
                  .status,
              OpStatus::done);
    if (row.goes != Goes::at_once) EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one"}));
    if (row.goes == Goes::expires) advance(ttl() + unit());
    if (row.goes == Goes::forgotten) ASSERT_EQ(forget(it.id, it.nonce, row.end).status, OpStatus::done);
    const Op op = read(it.id);
    EXPECT_EQ(texts(op), Texts{});
    EXPECT_EQ(op.record.has_value(), row.end == State::failed);
    const Nonce next = new_nonce();
    ASSERT_EXECUTES(claim(it.id, next));
    EXPECT_EQ(texts(read(it.id)), Texts{});
    EXPECT_EQ(append(it.id, next, 0, "next"), OpStatus::done);
    EXPECT_EQ(texts(read(it.id)), Texts{"next"});
  }
}

TEST_P(StoreContract, appends_of_many_operations_share_a_batch) {
  std::vector<Made> all;
  for (int i = 0; i < 20; ++i) all.push_back(made(State::started));
  for (std::uint32_t round = 0; round < 3; ++round) {
    std::vector<Op> ops;
    for (const Made& it : all) ops.push_back(append_op(it.id, it.nonce, round, std::to_string(round)));
    ops.push_back(append_op(new_id(), new_nonce(), 0, "to nothing"));
    ops.push_back({.verb = Verb::lookup, .id = new_id()});
    std::vector<Op*> batch;
    for (Op& op : ops) batch.push_back(&op);
    store().execute(batch);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(ops[i].status, OpStatus::done) << ops[i].error;
    EXPECT_EQ(ops[all.size()].status, OpStatus::lost);
  }
  std::vector<Op> reads;
  for (const Made& it : all) reads.push_back({.verb = Verb::read, .id = it.id, .chunk_bytes = 10'000});
  std::vector<Op*> batch;
  for (Op& op : reads) batch.push_back(&op);
  store().execute(batch);
  for (const Op& op : reads) EXPECT_EQ(texts(op), (Texts{"0", "1", "2"}));
}

TEST_P(StoreContract, results_of_an_earlier_read_do_not_stay) {
  const Made it = appended({"head"});
  Op op = read(it.id);
  ASSERT_EQ(op.chunks.size(), 1U);
  op.chunk = 1;
  EXPECT_EQ(texts(run(op)), Texts{});
}

TEST_P(LapsingStoreContract, what_was_appended_outlives_its_owner) {
  const Made it = appended({"head", "one"});
  ASSERT_TRUE(lapse());
  EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one"}));
  EXPECT_EQ(claim(it.id, new_nonce(), OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(texts(read(it.id, 1)), Texts{"one"});
  const Nonce second = new_nonce();
  ASSERT_EXECUTES(claim(it.id, second, OnUnknown::retry));
  EXPECT_EQ(append(it.id, it.nonce, 2, "by the first owner"), OpStatus::lost);
  EXPECT_EQ(texts(read(it.id)), Texts{});
}

// Bodies that stay in their chunks.
TEST_P(StoreContract, a_success_can_leave_its_body_in_chunks_which_it_freezes) {
  const Made it = appended({"head", "one", "two"});
  const Op end = keep_op(it, "final head");
  for (int repeat = 0; repeat < 2; ++repeat) {  // repeated: done, and says what stands
    const Op ended = run(end);
    ASSERT_EQ(ended.status, OpStatus::done);
    for (const Op& op : {read(it.id), claim(it.id, new_nonce()), lookup(it.id)}) {
      ASSERT_TRUE(op.record.has_value());
      EXPECT_EQ(op.record->state, State::succeeded);
      EXPECT_EQ(op.record->body_kept, BodyKept::in_chunks);
      ASSERT_NE(op.record->outcome, nullptr);
      EXPECT_EQ(*op.record->outcome, "final head");
      if (op.verb == Verb::claim) EXPECT_EQ(op.verdict, Verdict::replay);
    }
    if (repeat == 1) EXPECT_EQ(*ended.record.value().outcome, "final head");
    EXPECT_EQ(texts(read(it.id)), (Texts{"head", "one", "two"}));
    EXPECT_EQ(texts(read(it.id, 2)), Texts{"two"});
    EXPECT_EQ(append(it.id, it.nonce, 3, "too late"), OpStatus::lost);
    EXPECT_EQ(append(it.id, it.nonce, 0, "too late"), OpStatus::lost);
    EXPECT_EQ(renew(it.id, it.nonce).status, OpStatus::lost);
  }
}

TEST_P(StoreContract, an_unknown_outcome_can_still_become_a_success_in_chunks) {
  const Made it = appended({"head"});
  ASSERT_EQ(finish(it.id, it.nonce, State::unknown).status, OpStatus::done);
  ASSERT_EQ(run(keep_op(it)).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{"head"});
}

TEST_P(StoreContract, a_body_that_is_not_kept_leaves_no_chunks) {
  const Made it = appended({"head"});
  Op end = finish_op(it.id, it.nonce);
  end.body_kept = BodyKept::no;
  ASSERT_EQ(run(end).status, OpStatus::done);
  EXPECT_EQ(texts(read(it.id)), Texts{});
  EXPECT_EQ(claim(it.id, new_nonce()).verdict, Verdict::not_kept);
}

TEST_P(StoreContract, a_tombstone_has_no_chunks) {
  const Made it = appended({"head"}, tombstone());
  ASSERT_EQ(run(keep_op(it)).status, OpStatus::done);
  advance(ttl() + unit());
  const Op op = read(it.id);
  EXPECT_EQ(texts(op), Texts{});
  ASSERT_TRUE(op.record.has_value());
  EXPECT_EQ(op.record->state, State::tombstone);
}

}  // namespace once::contract
