// Chunks of streaming responses in MySQL: beside other transactions, what fits into a packet, and how they go when they
// are of no more use.
#include <thread>

#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_chunks_test {

class MysqlChunks : public MysqlTest {
 protected:
  void finish(const Owner& owner, State state) {
    Op end = finish_op(owner);
    end.final_state = state;
    ASSERT_EQ(run(end).status, OpStatus::done);
  }
  // Ends it with its body in chunks.
  void keep(const Owner& owner) {
    const Op end = run(in_chunks(finish_op(owner)));
    ASSERT_EQ(end.status, OpStatus::done) << end.error;
    EXPECT_EQ(end.record->body_kept, BodyKept::in_chunks);
  }
  // Runs it while another transaction has done this, which commits when it is waited for. A wait that the server gave
  // up is begun again, as a gateway does.
  Op run_beside(const std::string& transaction, const Op& op) {
    EXPECT_EQ(other().run("BEGIN; " + transaction), 0U);
    Op done;
    std::jthread running([&] {
      do done = run(op);
      while (done.status == OpStatus::failed);
    });
    Session looking(contract::server_url());
    const auto until = monotonic_now() + std::chrono::seconds(20);
    // Not of innodb_trx: the server shows an old copy of that to whoever asks more often than every 100 ms.
    const std::string waiting =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
        "'innodb_row_lock_current_waits'";
    while (looking.value(waiting) == "0" && monotonic_now() < until) {
    }
    EXPECT_EQ(other().run("COMMIT"), 0U);
    running.join();
    return done;
  }
  std::string rows(const Owner& owner) { return other().value("SELECT COUNT(*) FROM once_chunks " + owner.where()); }
  void sweep_all() {
    while (store().sweep(1000)->more == More::yes) {
    }
  }
};

// A backend that finishes the operation in its own transaction holds the row until it commits.
TEST_F(MysqlChunks, are_appended_while_a_backend_holds_the_operation) {
  const Owner owner = streaming(1);
  ASSERT_EQ(other().run("BEGIN; UPDATE once_operations SET state = 1, outcome = 'all of it' " + owner.where()), 0U);
  EXPECT_EQ(append(owner, 1, "1"), OpStatus::done);
  EXPECT_EQ(chunks(owner), "0 1");
  ASSERT_EQ(other().run("COMMIT"), 0U);
  EXPECT_EQ(append(owner, 2, "2"), OpStatus::lost);
  EXPECT_EQ(chunks(owner), "");
}

TEST_F(MysqlChunks, that_no_statement_can_carry_are_refused_as_too_large) {
  const Owner owner = claimed();
  const auto limit = std::stoull(other().value("SELECT @@max_allowed_packet"));
  const Op op = run(append_op(owner, 0, std::string(limit, 'x')));
  EXPECT_EQ(op.status, OpStatus::failed);
  EXPECT_EQ(op.fault, StoreFault::full);
  EXPECT_EQ(append(owner, 0, std::string(limit / 4, '\'')), OpStatus::done);
}

TEST_F(MysqlChunks, more_than_one_packet_takes_are_appended_in_one_batch) {
  constexpr std::size_t size = std::size_t{256} << 10U;
  const auto limit = std::stoull(other().value("SELECT @@max_allowed_packet"));
  std::vector<Owner> all;
  std::vector<Op> ops;
  while (ops.size() * size < limit + size) {
    all.push_back(claimed());
    ops.push_back(append_op(all.back(), 0, std::string(size, '\0')));
  }
  std::vector<Op*> batch;
  for (Op& op : ops) batch.push_back(&op);
  ServerSettings patient;
  patient.timeout = std::chrono::minutes(1);
  opened(contract::server_url(), patient)->execute(batch);
  for (const Op& op : ops) EXPECT_EQ(op.status, OpStatus::done) << op.error;
  EXPECT_EQ(chunks(all.back()).size(), size);
}

// The sweep may be at work on chunks of an owner that a reader has just seen.
TEST_F(MysqlChunks, are_read_up_to_the_first_one_that_is_missing) {
  const Owner owner = streaming(4);
  ASSERT_EQ(other().run("DELETE FROM once_chunks " + owner.where() + " AND number = 2"), 0U);
  EXPECT_EQ(chunks(owner), "0 1");
}

TEST_F(MysqlChunks, go_with_the_sweep_after_what_they_belong_to) {
  const Owner running = streaming(3);
  const Owner unknown = streaming(3);
  finish(unknown, State::unknown);
  const Owner succeeded = streaming(3);
  finish(succeeded, State::succeeded);
  const Owner failed = streaming(3);
  finish(failed, State::failed);
  const Owner released = streaming(3);
  ASSERT_EQ(run(op_of(Verb::release, released)).status, OpStatus::done);
  const Owner taken_over = streaming(3);
  finish(taken_over, State::unknown);
  const Owner second{taken_over.id, new_owner().nonce};
  ASSERT_EQ(run(op_of(Verb::claim, second)).verdict, Verdict::execute);
  EXPECT_EQ(append(second, 0, "second"), OpStatus::done);

  sweep_all();
  for (const Owner& owner : {succeeded, failed, released}) EXPECT_EQ(rows(owner), "0");
  EXPECT_EQ(rows(second), "1");
  EXPECT_EQ(chunks(second), "second");
  EXPECT_EQ(chunks(running), "0 1 2");
  EXPECT_EQ(chunks(unknown), "0 1 2");

  contract::advance_server_clock(std::chrono::hours(25));
  sweep_all();
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_chunks"), "0");
}

TEST_F(MysqlChunks, of_a_body_that_stays_in_them_go_when_its_operation_expires) {
  const Owner kept = streaming(3);
  keep(kept);
  const Owner forgotten = streaming(3);
  keep(forgotten);
  Op forget = op_of(Verb::forget, forgotten);
  forget.seen_state = State::succeeded;
  ASSERT_EQ(run(forget).status, OpStatus::done);
  const Owner remembered = new_owner();
  Op claim = op_of(Verb::claim, remembered);
  claim.terms.tombstone = std::chrono::hours(1000);
  ASSERT_EQ(run(claim).verdict, Verdict::execute);
  EXPECT_EQ(append(remembered, 0, "head"), OpStatus::done);
  keep(remembered);

  sweep_all();
  EXPECT_EQ(chunks(kept), "0 1 2");
  EXPECT_EQ(chunks(remembered), "head");
  EXPECT_EQ(rows(forgotten), "0");

  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(chunks(kept), "");
  sweep_all();
  EXPECT_EQ(other().value("SELECT state FROM once_operations " + remembered.where()), "4");
  for (const Owner& owner : {kept, remembered}) EXPECT_EQ(rows(owner), "0");
}

// Somebody at another gateway has stopped the response.
TEST_F(MysqlChunks, are_not_appended_after_an_end_that_was_not_committed_yet) {
  const Owner owner = streaming(2);
  const Op late = run_beside("UPDATE once_chunks SET repeated = repeated + 1 " + owner.where() +
                                 " AND number = 0; UPDATE once_operations SET state = 1, body_kept = 0, chunks_fence = "
                                 "fence " +
                                 owner.where(),
                             append_op(owner, 2, "2"));
  EXPECT_EQ(late.status, OpStatus::lost);
  EXPECT_EQ(chunks(owner), "0 1");
  EXPECT_EQ(rows(owner), "2");
}

TEST_F(MysqlChunks, that_are_being_appended_are_part_of_what_an_end_keeps) {
  const Owner owner = streaming(2);
  const Op end = run_beside(
      fmt::format("UPDATE once_chunks SET repeated = repeated + 1 {0} AND number = 0; INSERT INTO once_chunks (id, "
                  "nonce, number, size, bytes) VALUES (0x{1}, 0x{2}, 2, 1, '2')",
                  owner.where(), to_hex(owner.id), to_hex(owner.nonce)),
      in_chunks(finish_op(owner)));
  EXPECT_EQ(end.status, OpStatus::done);
  EXPECT_EQ(chunks(owner), "0 1 2");
}

TEST_F(MysqlChunks, are_swept_up_to_a_limit_also_within_one_response) {
  sweep_all();
  const Owner running = streaming(2);
  const std::string before = other().value("SELECT COUNT(*) FROM once_chunks");
  for (int i = 0; i < 3; ++i) finish(streaming(4), State::succeeded);
  const auto left = [&] { return other().value("SELECT COUNT(*) - " + before + " FROM once_chunks"); };
  EXPECT_EQ(store().sweep(5)->more, More::yes);
  EXPECT_EQ(left(), "7");
  EXPECT_EQ(store().sweep(5)->more, More::yes);
  EXPECT_EQ(store().sweep(5)->more, More::no);
  EXPECT_EQ(left(), "0");
  EXPECT_EQ(chunks(running), "0 1");
}

// Neither reads all chunks of all responses.
TEST_F(MysqlChunks, are_found_by_their_key) {
  const Owner owner = streaming(1);
  for (int i = 0; i < 20; ++i) {
    const Owner filler = claimed();
    ASSERT_EQ(
        other().run(fmt::format("INSERT INTO once_chunks (id, nonce, number, size, bytes) VALUES (0x{}, 0x{}, 0, "
                                "1, 'x'), (0x{}, 0x{}, 1, 1, 'x')",
                                to_hex(filler.id), to_hex(filler.nonce), to_hex(filler.id), to_hex(filler.nonce))),
        0U);
  }
  mysql::Script script;
  script.see_chunks(owner.id, 0, 1000);
  ASSERT_EQ(other().run("EXPLAIN " + script.text()), 0U);
  for (const Cells& row : other().rows()) {
    const std::string table = row.at(2).value_or("");
    if (table != "once_chunks" && table != "c") continue;
    EXPECT_NE(row.at(3), "ALL") << table;
    EXPECT_NE(row.at(3), "index") << table;
    EXPECT_EQ(row.at(5), "PRIMARY") << table;
  }
}

}  // namespace mysql_chunks_test
}  // namespace once::mysql_test
