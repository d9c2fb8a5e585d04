// Chunks of streaming responses in PostgreSQL: beside other transactions, and how they go when they are of no more use.
#include <functional>
#include <thread>

#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_chunks_test {

class PostgresChunks : public PostgresTest {
 protected:
  PostgresChunks() {
    EXPECT_TRUE(postgres::apply_schema(database_.url(), ServerSettings()).has_value());
    store_ = open(ServerSettings(), database_.url());
    sql_ = std::make_unique<Sql>(database_.url());
  }

  // Started, with this many chunks.
  Started streaming(std::uint32_t count) {
    const Started it = started(*store_);
    for (std::uint32_t i = 0; i < count; ++i) EXPECT_EQ(append(*store_, it, i, std::to_string(i)), OpStatus::done);
    return it;
  }
  void finish(const Started& it, State state) {
    Op end = finish_op(it.id, it.nonce);
    end.final_state = state;
    ASSERT_EQ(run(*store_, end).status, OpStatus::done);
  }
  std::string sql(const std::string& text, int columns = 1) { return (*sql_)(text, columns); }
  // Ends it with its body in chunks.
  void keep(const Started& it) {
    const Op end = run(*store_, in_chunks(finish_op(it.id, it.nonce)));
    ASSERT_EQ(end.status, OpStatus::done) << end.error;
    EXPECT_EQ(end.record->body_kept, BodyKept::in_chunks);
  }
  std::string of(const Started& it) { return " id = '\\x" + to_hex(it.id) + "'"; }
  // Runs it while another transaction has done this, which commits when it is waited for. A wait that the server gave
  // up is begun again, as a gateway does.
  Op run_beside(const std::string& other, const Op& op) {
    Sql transaction(database_.url());
    transaction("BEGIN; " + other);
    Op done;
    std::jthread running([&] {
      do done = run(*store_, op);
      while (done.status == OpStatus::failed);
    });
    const auto waits =
        "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = "
        "current_database())";
    sql_->wait_for(waits);
    transaction("COMMIT");
    running.join();
    return done;
  }
  std::string rows(const Started& it) {
    return sql("SELECT count(*) FROM once_chunks WHERE id = '\\x" + to_hex(it.id) + "'");
  }

  OwnDatabase database_;
  std::unique_ptr<PostgresStore> store_;
  std::unique_ptr<Sql> sql_;
};

// A backend that finishes the operation in its own transaction holds the row until it commits.
TEST_F(PostgresChunks, are_appended_while_a_backend_holds_the_operation) {
  const Started it = streaming(1);
  Sql backend(database_.url());
  backend("BEGIN");
  backend("SELECT once_finish('" + it.claim() + "', 200, '{}', 'all of it')");
  EXPECT_EQ(append(*store_, it, 1, "1"), OpStatus::done);
  EXPECT_EQ(chunks(*store_, it), "0 1");
  backend("COMMIT");
  EXPECT_EQ(append(*store_, it, 2, "2"), OpStatus::lost);
  EXPECT_EQ(chunks(*store_, it), "");
}

// A row that was locked since its last write makes the owner's finish ask twice more.
TEST_F(PostgresChunks, leave_the_row_of_the_operation_as_it_is) {
  const Started it = started(*store_);
  const std::string before = sql("SELECT ctid, xmin, xmax FROM " + it.row(), 3);
  EXPECT_EQ(append(*store_, it, 0, "head"), OpStatus::done);
  EXPECT_EQ(sql("SELECT ctid, xmin, xmax FROM " + it.row(), 3), before);
}

// A copy that the network held back, or that is still at work when its caller asks again.
TEST_F(PostgresChunks, wait_for_the_same_append_that_is_still_open) {
  const Started it = started(*store_);
  Sql copy(database_.url());
  copy("BEGIN");
  copy("INSERT INTO once_chunks (id, nonce, number, bytes) VALUES ('\\x" + to_hex(it.id) + "', '\\x" +
       to_hex(it.nonce) + "', 0, 'head')");
  const Op blocked = run(*store_, append_op(it.id, it.nonce, 0, "head"));
  EXPECT_EQ(blocked.status, OpStatus::failed);
  EXPECT_EQ(blocked.fault, StoreFault::refused);
  copy("COMMIT");
  EXPECT_EQ(append(*store_, it, 0, "head"), OpStatus::done);
  EXPECT_EQ(chunks(*store_, it), "head");
}

TEST_F(PostgresChunks, more_than_one_statement_takes_are_appended_in_one_batch) {
  std::vector<Started> all;
  std::vector<Op> ops;
  for (int i = 0; i < 70; ++i) {
    all.push_back(started(*store_));
    ops.push_back(append_op(all.back().id, all.back().nonce, 0, std::string(std::size_t{256} << 10U, 'x')));
  }
  run_all(*store_, ops);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_EQ(chunks(*store_, all.back()).size(), std::size_t{256} << 10U);
}

TEST_F(PostgresChunks, go_with_the_sweep_after_what_they_belong_to) {
  const Started running = streaming(3);
  const Started unknown = streaming(3);
  finish(unknown, State::unknown);
  const Started succeeded = streaming(3);
  finish(succeeded, State::succeeded);
  const Started failed = streaming(3);
  finish(failed, State::failed);
  const Started released = streaming(3);
  ASSERT_EQ(run(*store_, op(Verb::release, released.id, released.nonce)).status, OpStatus::done);
  const Started taken_over = streaming(3);
  finish(taken_over, State::unknown);
  const Started second{taken_over.id, new_nonce()};
  ASSERT_EQ(run(*store_, op(Verb::claim, second.id, second.nonce)).verdict, Verdict::execute);
  EXPECT_EQ(append(*store_, second, 0, "second"), OpStatus::done);

  ASSERT_TRUE(store_->sweep(1000).has_value());
  for (const Started& it : {succeeded, failed, released}) EXPECT_EQ(rows(it), "0");
  EXPECT_EQ(rows(second), "1");
  EXPECT_EQ(chunks(*store_, second), "second");
  EXPECT_EQ(chunks(*store_, running), "0 1 2");
  EXPECT_EQ(chunks(*store_, unknown), "0 1 2");

  contract::advance_server_clock(std::chrono::hours(2));
  ASSERT_TRUE(store_->sweep(1000).has_value());
  ASSERT_TRUE(store_->sweep(1000).has_value());
  EXPECT_EQ(sql("SELECT count(*) FROM once_operations"), "0");
  EXPECT_EQ(sql("SELECT count(*) FROM once_chunks"), "0");
}

TEST_F(PostgresChunks, of_a_body_that_stays_in_them_go_when_its_operation_expires) {
  const Started kept = streaming(3);
  keep(kept);
  const Started forgotten = streaming(3);
  keep(forgotten);
  Op forget = op(Verb::forget, forgotten.id, forgotten.nonce);
  forget.seen_state = State::succeeded;
  ASSERT_EQ(run(*store_, forget).status, OpStatus::done);
  Started remembered{new_id(), new_nonce()};
  Op claim = op(Verb::claim, remembered.id, remembered.nonce);
  claim.terms.tombstone = std::chrono::hours(100);
  ASSERT_EQ(run(*store_, claim).verdict, Verdict::execute);
  EXPECT_EQ(append(*store_, remembered, 0, "head"), OpStatus::done);
  keep(remembered);

  ASSERT_TRUE(store_->sweep(1000).has_value());
  EXPECT_EQ(sql("SELECT once_sweep()"), "0");
  EXPECT_EQ(chunks(*store_, kept), "0 1 2");
  EXPECT_EQ(chunks(*store_, remembered), "head");
  EXPECT_EQ(rows(forgotten), "0");

  contract::advance_server_clock(std::chrono::hours(2));
  EXPECT_EQ(chunks(*store_, kept), "");
  ASSERT_TRUE(store_->sweep(1000).has_value());
  EXPECT_EQ(sql("SELECT state FROM " + remembered.row()), "4");
  EXPECT_EQ(sql("SELECT once_sweep()"), "4");
  EXPECT_EQ(sql("SELECT count(*) FROM once_chunks"), "0");
}

// What a backend commits with its work is the whole response.
TEST_F(PostgresChunks, are_of_no_use_after_once_finish) {
  const Started it = streaming(2);
  finish(it, State::unknown);
  sql("SELECT once_finish('" + it.claim() + "', 200, '{}', 'all of it')");
  EXPECT_EQ(run(*store_, op(Verb::lookup, it.id, {})).record->body_kept, BodyKept::yes);
  EXPECT_EQ(chunks(*store_, it), "");
  EXPECT_EQ(sql("SELECT once_sweep()"), "2");
}

TEST_F(PostgresChunks, are_not_told_to_workers) {
  const std::string claim = sql("SELECT claim FROM once_claim('acme', 'streamed')");
  Started it;
  const auto bytes = [](const std::string& hex) { return from_hex(hex).value_or(""); };
  const std::string id = bytes(claim.substr(0, 64));
  const std::string nonce = bytes(claim.substr(65));
  std::ranges::copy(id, it.id.bytes.begin());
  std::ranges::copy(nonce, it.nonce.bytes.begin());
  EXPECT_EQ(append(*store_, it, 0, "head"), OpStatus::done);
  keep(it);
  EXPECT_EQ(sql("SELECT verdict, body IS NULL FROM once_claim('acme', 'streamed')", 2), "not_kept|t");
}

// Somebody at another gateway has stopped the response.
TEST_F(PostgresChunks, are_not_appended_after_an_end_that_was_not_committed_yet) {
  const Started it = streaming(2);
  const Op late = run_beside("SELECT FROM once_chunks WHERE number = 0 AND" + of(it) +
                                 " FOR NO KEY UPDATE; UPDATE once_operations SET state = 1, body_kept = false, "
                                 "chunks_fence = fence WHERE" +
                                 of(it),
                             append_op(it.id, it.nonce, 2, "2"));
  EXPECT_EQ(late.status, OpStatus::lost);
  EXPECT_EQ(chunks(*store_, it), "0 1");
  EXPECT_EQ(rows(it), "2");
}

TEST_F(PostgresChunks, that_are_being_appended_are_part_of_what_an_end_keeps) {
  const Started it = streaming(2);
  const Op end = run_beside("SELECT FROM once_chunks WHERE number = 0 AND" + of(it) +
                                " FOR NO KEY UPDATE; INSERT INTO once_chunks (id, nonce, number, bytes) VALUES ('\\x" +
                                to_hex(it.id) + "', '\\x" + to_hex(it.nonce) + "', 2, '2')",
                            in_chunks(finish_op(it.id, it.nonce)));
  EXPECT_EQ(end.status, OpStatus::done);
  EXPECT_EQ(chunks(*store_, it), "0 1 2");
}

// Appends and ends of many responses in one batch, beside the same of another gateway.
TEST_F(PostgresChunks, of_many_responses_are_ended_and_appended_at_once) {
  const auto second = open(ServerSettings(), database_.url());
  std::vector<Started> all;
  for (int i = 0; i < 20; ++i) all.push_back(streaming(1));
  const auto work = [&](Store& store, bool even) {
    std::vector<Op> ops;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Started& it = all[i];
      ops.push_back((i % 2 == 0) == even ? append_op(it.id, it.nonce, 1, "1") : in_chunks(finish_op(it.id, it.nonce)));
    }
    run_all(store, ops);
    for (const Op& op : ops) {
      EXPECT_NE(op.status, OpStatus::failed) << op.error;
      if (op.verb == Verb::finish) EXPECT_EQ(op.status, OpStatus::done);
    }
  };
  {
    const std::jthread one([&] { work(*store_, true); });
    const std::jthread two([&] { work(*second, false); });
  }
  for (const Started& it : all) {
    const std::string text = chunks(*store_, it);
    EXPECT_TRUE(text == "0" || text == "0 1") << text;
  }
}

TEST_F(PostgresChunks, are_swept_up_to_a_limit_also_within_one_response) {
  const Started running = streaming(2);
  for (int i = 0; i < 3; ++i) finish(streaming(4), State::succeeded);
  const auto left = [&] { return sql("SELECT count(*) FROM once_chunks"); };
  EXPECT_EQ(store_->sweep(5)->more, More::yes);
  EXPECT_EQ(left(), "9");
  EXPECT_EQ(sql("SELECT once_sweep(5)"), "5");
  EXPECT_EQ(left(), "4");
  EXPECT_EQ(store_->sweep(5)->more, More::no);
  EXPECT_EQ(left(), "2");
  EXPECT_EQ(sql("SELECT once_sweep()"), "0");
  EXPECT_EQ(chunks(*store_, running), "0 1");
}

// Two gateways sweep at the same time.
TEST_F(PostgresChunks, that_another_sweep_is_removing_are_left_to_it) {
  const Started it = streaming(3);
  finish(it, State::succeeded);
  Sql other(database_.url());
  other("BEGIN");
  EXPECT_EQ(other("SELECT once_sweep(2)"), "2");
  EXPECT_EQ(sql("SELECT once_sweep()"), "1");
  other("COMMIT");
  EXPECT_EQ(rows(it), "0");
}

}  // namespace postgres_chunks_test
}  // namespace once::store
