// Chunks of streaming responses: beside other transactions, and how they go when they are of no more use.
#pragma once

#include "tests/store/sql/server.hpp"

namespace once::sql_test {

class SqlChunks : public SqlTest {
 protected:
  // Runs it while another transaction has done this, which commits when it is waited for. A wait that the server gave
  // up is begun again, as a gateway does.
  Op run_beside(const std::string& statements, const Op& op) {
    const auto other = connect();
    (*other)("BEGIN; " + statements);
    Op ended;
    std::jthread running([&] {
      do ended = run(op);
      while (ended.status == OpStatus::failed);
    });
    wait_for_waiters("1");
    EXPECT_EQ((*other)("COMMIT"), "done");
    running.join();
    return ended;
  }
  std::string hold_first_chunk(const Owner& owner) {
    return "SELECT 1 FROM once_chunks" + where(owner) + " AND number = 0 FOR UPDATE; ";
  }
  void sweep_all() {
    while (store().sweep(1000)->more == More::yes) {
    }
  }
};

// A backend that finishes the operation in its own transaction holds the row until it commits.
TEST_F(SqlChunks, are_appended_while_a_backend_holds_the_operation) {
  const Owner owner = streaming(1);
  const auto backend = connect();
  (*backend)("BEGIN; UPDATE once_operations SET state = 1, outcome = 'all of it'" + where(owner));
  done(append_op(owner, 1, "1"));
  EXPECT_EQ(chunks(owner), "0 1");
  EXPECT_EQ((*backend)("COMMIT"), "done");
  EXPECT_EQ(run(append_op(owner, 2, "2")).status, OpStatus::lost);
  EXPECT_EQ(chunks(owner), "");
}

TEST_F(SqlChunks, more_than_one_statement_takes_are_appended_in_one_batch) {
  constexpr std::size_t size = std::size_t{256} << 10U;
  const std::size_t limit = server().most_bytes_of_a_statement();
  std::vector<Op> ops;
  while (ops.size() * size < limit + size) ops.push_back(append_op(claimed(), 0, std::string(size, '\0')));
  run_all(*server().open({.timeout = std::chrono::minutes(1)}), ops);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_EQ(chunks({ops.back().id, Nonce()}).size(), size);
}

// The sweep may be at work on chunks of an owner that a reader has just seen.
TEST_F(SqlChunks, are_read_up_to_the_first_one_that_is_missing) {
  const Owner owner = streaming(4);
  EXPECT_EQ(ask("DELETE FROM once_chunks" + where(owner) + " AND number = 2"), "done");
  EXPECT_EQ(chunks(owner), "0 1");
}

TEST_F(SqlChunks, go_with_the_sweep_after_what_they_belong_to) {
  const Owner running = streaming(3);
  const Owner unknown = streaming(3);
  done(finish_op(unknown, State::unknown));
  const Owner succeeded = streaming(3);
  done(finish_op(succeeded));
  const Owner failed = streaming(3);
  done(finish_op(failed, State::failed));
  const Owner released = streaming(3);
  done(op_of(Verb::release, released));
  const Owner taken_over = streaming(3);
  done(finish_op(taken_over, State::unknown));
  const Owner second = other_owner(taken_over);
  done(op_of(Verb::claim, second));
  done(append_op(second, 0, "second"));

  sweep_all();
  for (const Owner& owner : {succeeded, failed, released}) EXPECT_EQ(rows_of_chunks(owner), "0");
  EXPECT_EQ(rows_of_chunks(second), "1");
  EXPECT_EQ(chunks(second), "second");
  EXPECT_EQ(chunks(running), "0 1 2");
  EXPECT_EQ(chunks(unknown), "0 1 2");

  advance_server_clock(std::chrono::hours(25));
  sweep_all();
  sweep_all();
  EXPECT_EQ(number_of("once_operations"), "0");
  EXPECT_EQ(number_of("once_chunks"), "0");
}

TEST_F(SqlChunks, of_a_body_that_stays_in_them_go_when_its_operation_expires) {
  const Owner kept = streaming(3);
  const Owner forgotten = streaming(3);
  const Owner remembered = claimed(std::chrono::hours(1000));
  done(append_op(remembered, 0, "head"));
  for (const Owner& owner : {kept, forgotten, remembered}) {
    EXPECT_EQ(run(keep_op(owner)).record->body_kept, BodyKept::in_chunks);
  }
  Op forget = op_of(Verb::forget, forgotten);
  forget.seen_state = State::succeeded;
  done(forget);

  sweep_all();
  EXPECT_EQ(chunks(kept), "0 1 2");
  EXPECT_EQ(chunks(remembered), "head");
  EXPECT_EQ(rows_of_chunks(forgotten), "0");

  advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(chunks(kept), "");
  sweep_all();
  EXPECT_EQ(ask("SELECT state FROM " + row(remembered)), "4");
  sweep_all();
  for (const Owner& owner : {kept, remembered}) EXPECT_EQ(rows_of_chunks(owner), "0");
}

// Somebody at another gateway has stopped the response.
TEST_F(SqlChunks, are_not_appended_after_an_end_that_was_not_committed_yet) {
  const Owner owner = streaming(2);
  const Op late =
      run_beside(hold_first_chunk(owner) +
                     "UPDATE once_operations SET state = 1, body_kept = false, chunks_fence = fence" + where(owner),
                 append_op(owner, 2, "2"));
  EXPECT_EQ(late.status, OpStatus::lost);
  EXPECT_EQ(chunks(owner), "0 1");
  EXPECT_EQ(rows_of_chunks(owner), "2");
}

TEST_F(SqlChunks, that_are_being_appended_are_part_of_what_an_end_keeps) {
  const Owner owner = streaming(2);
  const Op end = run_beside(hold_first_chunk(owner) + server().insert_chunk(owner, 2, "2"), keep_op(owner));
  EXPECT_EQ(end.status, OpStatus::done);
  EXPECT_EQ(chunks(owner), "0 1 2");
}

// Appends and ends of many responses in one batch, beside the same of another gateway.
TEST_F(SqlChunks, of_many_responses_are_ended_and_appended_at_once) {
  std::vector<Owner> all;
  for (int i = 0; i < 20; ++i) all.push_back(streaming(1));
  const auto work = [&](Store& store, bool even) {
    std::vector<Op> ops;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ops.push_back((i % 2 == 0) == even ? append_op(all[i], 1, "1") : keep_op(all[i]));
    }
    run_all(store, ops);
    for (const Op& op : ops) {
      EXPECT_NE(op.status, OpStatus::failed) << op.error;
      if (op.verb == Verb::finish) EXPECT_EQ(op.status, OpStatus::done);
    }
  };
  const auto second = server().open({});
  {
    const std::jthread one([&] { work(store(), true); });
    const std::jthread two([&] { work(*second, false); });
  }
  for (const Owner& owner : all) {
    const std::string text = chunks(owner);
    EXPECT_TRUE(text == "0" || text == "0 1") << text;
  }
}

TEST_F(SqlChunks, are_swept_up_to_a_limit_also_within_one_response) {
  const Owner running = streaming(2);
  for (int i = 0; i < 3; ++i) done(finish_op(streaming(4)));
  for (const std::string left : {"9", "4"}) {
    EXPECT_EQ(store().sweep(5)->more, More::yes);
    EXPECT_EQ(number_of("once_chunks"), left);
  }
  EXPECT_EQ(store().sweep(5)->more, More::no);
  EXPECT_EQ(number_of("once_chunks"), "2");
  EXPECT_EQ(chunks(running), "0 1");
}

}  // namespace once::sql_test
