// The PostgreSQL store beside transactions of others: rows that are held, tables that are locked, connections that end.
#include <atomic>
#include <optional>
#include <thread>

#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_locks_test {

// Every commit waits for a standby that is not there.
class NoStandby {
 public:
  NoStandby() {
    Sql sql;
    sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    sql("SELECT pg_reload_conf()");
    // The server's processes learn of it one by one.
    while (!commits_hang(sql)) {
    }
  }
  ~NoStandby() { end(); }
  NoStandby(const NoStandby&) = delete;
  NoStandby& operator=(const NoStandby&) = delete;

  void end() const {
    Sql sql;
    sql("ALTER SYSTEM RESET synchronous_standby_names");
    sql("SELECT pg_reload_conf()");
    sql.wait_for("current_setting('synchronous_standby_names') = ''");
  }

 private:
  static bool commits_hang(Sql& sql) {
    std::atomic<bool> committed{false};
    const std::jthread other([&] {
      Sql()("SELECT pg_logical_emit_message(true, 'test', '')");
      committed = true;
    });
    while (!committed) {
      if (sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "t") return true;
    }
    return false;
  }
};

class PostgresLocks : public PostgresTest {
 protected:
  // Runs them until that took no longer than this: a machine that pauses makes it longer, but not every time.
  static void run_within(Store& store, std::vector<Op>& ops, Duration limit) {
    const std::vector<Op> fresh = ops;
    Duration took{};
    for (int left = 3; left > 0; --left) {
      ops = fresh;
      const auto begin = monotonic_now();
      run_all(store, ops);
      took = std::chrono::duration_cast<Duration>(monotonic_now() - begin);
      if (took < limit) return;
    }
    ADD_FAILURE() << "it took " << took.count() << " ms";
  }
};

// A backend that called once_finish and takes its time to commit.
TEST_F(PostgresLocks, a_row_that_a_backend_holds_holds_nobody_else_up) {
  const Owner held = claimed();
  const Owner other = claimed();
  const Owner renewed = claimed();
  Sql backend;
  backend("BEGIN; SELECT once_finish('" + held.claim() + "', 200)");

  std::vector<Op> ops = {finish_op(held), finish_op(other), op_of(Verb::renew, renewed),
                         op_of(Verb::claim, new_owner()), op_of(Verb::lookup, new_owner())};
  run_within(store(), ops, std::chrono::seconds(2));
  EXPECT_EQ(ops[0].status, OpStatus::failed);
  EXPECT_EQ(ops[0].fault, StoreFault::unavailable);
  EXPECT_EQ(ops[0].error, "the row is locked by another transaction");
  for (std::size_t i = 1; i < ops.size(); ++i) EXPECT_EQ(ops[i].status, OpStatus::done) << ops[i].error;
  EXPECT_EQ(ops[3].verdict, Verdict::execute);

  EXPECT_EQ(run(op_of(Verb::lookup, held)).record->state, State::started);
  EXPECT_EQ(run(op_of(Verb::claim, other_owner(held))).verdict, Verdict::in_flight);
  backend("COMMIT");
  EXPECT_EQ(run(op_of(Verb::claim, other_owner(held))).verdict, Verdict::replay);
}

TEST_F(PostgresLocks, many_held_rows_do_not_add_up_their_waits) {
  std::vector<Op> ops;
  Sql backend;
  backend("BEGIN");
  for (int i = 0; i < 40; ++i) {
    const Owner held = claimed();
    backend("SELECT once_finish('" + held.claim() + "', 200)");
    ops.push_back(finish_op(held));
  }
  run_within(store(), ops, std::chrono::seconds(2));
  for (const Op& each : ops) {
    EXPECT_EQ(each.status, OpStatus::failed);
    EXPECT_EQ(each.fault, StoreFault::unavailable);
  }
}

TEST_F(PostgresLocks, a_lapsed_claim_whose_backend_is_about_to_commit_is_in_flight_and_not_taken_over) {
  const Owner held = claimed();
  Sql backend;
  backend("BEGIN; SELECT once_finish('" + held.claim() + "', 201)");
  contract::advance_server_clock(std::chrono::seconds(31));
  const Op early = run(op_of(Verb::claim, other_owner(held)));
  EXPECT_EQ(early.status, OpStatus::done) << early.error;
  EXPECT_EQ(early.verdict, Verdict::in_flight);
  ASSERT_TRUE(early.record.has_value());
  EXPECT_EQ(early.record->nonce, held.nonce);
  backend("COMMIT");
  EXPECT_EQ(run(op_of(Verb::claim, other_owner(held))).verdict, Verdict::replay);
}

TEST_F(PostgresLocks, a_backend_that_rolled_back_leaves_no_lock_behind) {
  const Owner finished = claimed();
  const Owner taken = claimed();
  Sql backend;
  for (const Owner& each : {finished, taken}) {
    backend("BEGIN; SELECT once_finish('" + each.claim() + "', 200); ROLLBACK");
  }
  EXPECT_EQ(run(finish_op(finished)).status, OpStatus::done);
  contract::advance_server_clock(std::chrono::seconds(31));
  const Op claimed = run(op_of(Verb::claim, other_owner(taken)));
  EXPECT_EQ(claimed.verdict, Verdict::execute);
  EXPECT_EQ(claimed.record->attempt, Attempt{2});
}

TEST_F(PostgresLocks, a_batch_of_rows_whose_backends_rolled_back_is_written) {
  constexpr int count = 64;
  std::vector<Op> ops;
  Sql backend;
  backend("BEGIN");
  for (int i = 0; i < count; ++i) {
    const Owner each = claimed();
    backend("SELECT once_finish('" + each.claim() + "', 200)");
    ops.push_back(finish_op(each));
  }
  backend("ROLLBACK");
  run_all(store(), ops);
  for (const Op& each : ops) EXPECT_EQ(each.status, OpStatus::done) << each.error;
}

TEST_F(PostgresLocks, while_the_table_is_locked_nothing_is_done_and_said_so_in_time) {
  Sql other;
  other("BEGIN; LOCK TABLE once_operations IN ACCESS EXCLUSIVE MODE");
  const Owner it = new_owner();
  std::vector<Op> ops = {op_of(Verb::claim, it)};
  for (int i = 0; i < 10; ++i) ops.push_back(op_of(Verb::claim, new_owner()));
  run_within(store(), ops, std::chrono::seconds(4));
  for (const Op& refused : ops) {
    EXPECT_EQ(refused.status, OpStatus::failed);
    EXPECT_EQ(refused.fault, StoreFault::refused);
    EXPECT_NE(refused.error.find("55P03"), std::string::npos) << refused.error;
  }
  other("COMMIT");
  EXPECT_EQ(other("SELECT count(*) FROM " + row(it)), "0");
  EXPECT_EQ(run(op_of(Verb::claim, it)).verdict, Verdict::execute);
}

TEST_F(PostgresLocks, a_replay_writes_nothing) {
  const Owner it = claimed();
  ASSERT_EQ(run(finish_op(it)).status, OpStatus::done);
  Sql sql;
  const auto written = [&] { return sql("SELECT ctid, xmin, xmax FROM " + row(it), 3); };
  const auto next_transaction = [&] { return sql("SELECT pg_snapshot_xmax(pg_current_snapshot())"); };
  const std::string before = written();
  bool nothing_else = false;
  // Somebody else, such as autovacuum, may begin a transaction of its own meanwhile; not every time.
  for (int i = 0; i < 10 && !nothing_else; ++i) {
    const std::string next = next_transaction();
    for (int k = 0; k < 5; ++k) {
      const Op replayed = run(op_of(Verb::claim, other_owner(it)));
      ASSERT_EQ(replayed.verdict, Verdict::replay);
      ASSERT_EQ(*replayed.record->outcome, "outcome");
    }
    run(op_of(Verb::lookup, it));
    nothing_else = next == next_transaction();
  }
  EXPECT_TRUE(nothing_else);
  EXPECT_EQ(written(), before);
}

// The second write of a row goes beside the first: no index is touched.
// Whoever takes an operation from its owner and the owner itself may both be right that the lease has ended.
TEST_F(PostgresLocks, a_late_renewal_and_whoever_takes_the_operation_never_both_succeed) {
  constexpr std::size_t count = 30;
  const auto other = open();
  for (const Verb verb : {Verb::claim, Verb::resolve, Verb::forget}) {
    std::vector<Owner> lapsed;
    for (std::size_t i = 0; i < count; ++i) lapsed.push_back(claimed());
    contract::advance_server_clock(std::chrono::seconds(31));
    std::vector<Op> renewed(count);
    std::vector<Op> taken(count);
    std::atomic<std::size_t> at = 0;  // neither is far ahead of the other
    {
      const auto meet = [&](std::size_t i) {
        ++at;
        while (at < 2 * (i + 1)) std::this_thread::yield();
      };
      std::jthread owner([&] {
        for (std::size_t i = 0; i < count; ++i) {
          meet(i);
          renewed[i] = run(op_of(Verb::renew, lapsed[i]));
        }
      });
      std::jthread taker([&] {
        for (std::size_t i = 0; i < count; ++i) {
          Op take = op_of(verb, verb == Verb::claim ? other_owner(lapsed[i]) : lapsed[i]);
          take.final_state = State::failed;
          take.seen_state = State::started;
          meet(i);
          taken[i] = run_on(*other, take);
        }
      });
    }
    for (std::size_t i = 0; i < count; ++i) {
      const bool kept = renewed[i].status == OpStatus::done;
      const bool lost = verb == Verb::claim ? taken[i].verdict == Verdict::execute : taken[i].status == OpStatus::done;
      EXPECT_NE(kept, lost) << renewed[i].error << taken[i].error;
    }
  }
}

TEST_F(PostgresLocks, the_end_of_an_operation_changes_no_indexed_column) {
  const Owner it = claimed();
  Sql sql;
  const auto indexed = [&] { return sql("SELECT id, sweep_at, tenant, started_at FROM " + row(it), 4); };
  const std::string before = indexed();
  contract::advance_server_clock(std::chrono::seconds(20));
  ASSERT_EQ(run(op_of(Verb::renew, it)).status, OpStatus::done);
  ASSERT_EQ(run(finish_op(it)).status, OpStatus::done);
  EXPECT_EQ(indexed(), before);
  EXPECT_EQ(sql("SELECT expires_at BETWEEN sweep_at + '20 s' AND sweep_at + '30 s' FROM " + row(it)), "t");
}

TEST_F(PostgresLocks, connections_that_the_server_ended_are_not_used) {
  const Owner it = claimed();
  Sql sql;
  sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'once' AND pid <> "
      "pg_backend_pid()");
  sql.wait_for("(SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'once')");
  std::vector<Op> ops = {finish_op(it), op_of(Verb::claim, new_owner())};
  run_all(store(), ops);
  EXPECT_EQ(ops[0].status, OpStatus::done) << ops[0].error;
  EXPECT_EQ(ops[1].verdict, Verdict::execute);
  EXPECT_EQ(store().stats().indeterminate, 0U);
  EXPECT_EQ(store().stats().retried, 0U);
  EXPECT_EQ(store().stats().connects, 2U);
  EXPECT_EQ(store().stats().connections, 1U);
}

TEST_F(PostgresLocks, a_batch_whose_connection_is_ended_before_it_commits_is_done_on_another) {
  OwnDatabase database;
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
  Sql sql(database.url());
  sql("CREATE TABLE slow (); INSERT INTO slow DEFAULT VALUES");
  sql("CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS "
      "'BEGIN IF EXISTS (SELECT FROM slow) THEN PERFORM pg_sleep(4); END IF; RETURN NEW; END'");
  sql("CREATE TRIGGER slow AFTER INSERT ON once_operations FOR EACH ROW EXECUTE FUNCTION be_slow()");
  const auto store = open(ServerSettings(), database.url());
  const Owner it = new_owner();
  std::optional<Op> claimed;
  std::jthread gateway([&] { claimed = run_on(*store, op_of(Verb::claim, it)); });
  const std::string asleep = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = '" + database.name() +
                             "' AND pid <> pg_backend_pid()";
  sql.wait_for("EXISTS (SELECT " + asleep + ")");
  sql("DELETE FROM slow");
  sql("SELECT pg_terminate_backend(pid) " + asleep);
  gateway.join();
  EXPECT_EQ(claimed->status, OpStatus::done) << claimed->error;
  EXPECT_EQ(claimed->verdict, Verdict::execute);
  EXPECT_EQ(sql("SELECT count(*) FROM " + row(it)), "1");
  EXPECT_EQ(store->stats().retried, 1U);
  EXPECT_EQ(store->stats().indeterminate, 0U);
}

// The commit waits for a standby that is not there: it is made, but nobody is told.
TEST_F(PostgresLocks, a_commit_that_was_never_answered_is_unavailable_and_the_same_claim_later) {
  Sql sql;
  ServerSettings impatient;
  impatient.timeout = std::chrono::milliseconds(500);
  const auto store = open(impatient);
  const Owner it = new_owner();
  const NoStandby no_standby;
  Op lost = run_on(*store, op_of(Verb::claim, it));
  no_standby.end();
  EXPECT_EQ(lost.status, OpStatus::failed);
  EXPECT_EQ(lost.fault, StoreFault::unavailable);
  EXPECT_EQ(store->stats().indeterminate, 1U);
  sql.wait_for("EXISTS (SELECT FROM " + row(it) + ")");
  const Op again = run(op_of(Verb::claim, it));
  EXPECT_EQ(again.verdict, Verdict::execute);
  EXPECT_EQ(again.record->attempt, Attempt{1});
}

// As an operator ends it who sees a session hang: the server commits, says "done" and warns that no standby has it.
TEST_F(PostgresLocks, a_commit_that_reached_no_synchronous_standby_is_unavailable_until_one_has_it) {
  Sql sql;
  ServerSettings patient;
  patient.timeout = std::chrono::minutes(1);
  const auto store = open(patient);
  const Owner it = claimed_on(*store);
  const NoStandby no_standby;
  const auto give_up_waiting = [&](const Op& asked) {
    std::optional<Op> answered;
    std::jthread gateway([&] { answered = run_on(*store, asked); });
    sql.wait_for("EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')");
    sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
    gateway.join();
    return *answered;
  };
  const Op finished = give_up_waiting(finish_op(it));
  EXPECT_EQ(finished.status, OpStatus::failed);
  EXPECT_EQ(finished.fault, StoreFault::unavailable);
  EXPECT_EQ(store->stats().indeterminate, 1U);
  EXPECT_EQ(sql("SELECT state FROM " + row(it)), "1") << "the server has it";
  const Op replayed = give_up_waiting(op_of(Verb::claim, other_owner(it)));
  EXPECT_EQ(replayed.status, OpStatus::failed) << "what no standby has is not told";
  no_standby.end();
  EXPECT_EQ(run_on(*store, finish_op(it)).status, OpStatus::done);
  EXPECT_EQ(run_on(*store, op_of(Verb::claim, other_owner(it))).verdict, Verdict::replay);
}

TEST_F(PostgresLocks, a_server_that_only_reads_refuses_and_is_asked_again_on_a_new_connection) {
  OwnDatabase database;
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
  Sql sql(database.url());
  sql("ALTER DATABASE " + database.name() + " SET default_transaction_read_only = on");
  const auto store = open(ServerSettings(), database.url());
  const Op refused = run_on(*store, op_of(Verb::claim, new_owner()));
  EXPECT_EQ(refused.status, OpStatus::failed);
  EXPECT_EQ(refused.fault, StoreFault::refused);
  EXPECT_NE(refused.error.find("25006"), std::string::npos) << refused.error;
  sql("ALTER DATABASE " + database.name() + " RESET default_transaction_read_only");
  EXPECT_EQ(run_on(*store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);
}

// A row that was locked since its last write makes the owner's finish ask twice more.
TEST_F(PostgresLocks, appended_chunks_leave_the_row_of_the_operation_as_it_is) {
  Sql sql;
  const Owner it = claimed();
  const std::string before = sql("SELECT ctid, xmin, xmax FROM " + row(it), 3);
  EXPECT_EQ(append(it, 0, "head"), OpStatus::done);
  EXPECT_EQ(sql("SELECT ctid, xmin, xmax FROM " + row(it), 3), before);
}

// A copy that the network held back, or that is still at work when its caller asks again.
TEST_F(PostgresLocks, an_append_waits_for_the_same_append_that_is_still_open) {
  const Owner it = claimed();
  Sql copy;
  copy("BEGIN");
  copy("INSERT INTO once_chunks (id, nonce, number, bytes) VALUES ('\\x" + to_hex(it.id) + "', '\\x" +
       to_hex(it.nonce) + "', 0, 'head')");
  const Op blocked = run(append_op(it, 0, "head"));
  EXPECT_EQ(blocked.status, OpStatus::failed);
  EXPECT_EQ(blocked.fault, StoreFault::refused);
  copy("COMMIT");
  EXPECT_EQ(append(it, 0, "head"), OpStatus::done);
  EXPECT_EQ(chunks(it), "head");
}

// Two gateways sweep at the same time.
TEST_F(PostgresLocks, chunks_that_another_sweep_is_removing_are_left_to_it) {
  Sql sql;
  sql("DELETE FROM once_chunks");
  const Owner it = claimed();
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(append(it, i, "chunk"), OpStatus::done);
  ASSERT_EQ(run(finish_op(it)).status, OpStatus::done);
  Sql other;
  other("BEGIN");
  other("SELECT once_sweep(2)");
  sql("SELECT once_sweep()");
  EXPECT_EQ(other("SELECT count(*) FROM once_chunks"), "0") << "each has removed its part";
  other("COMMIT");
  EXPECT_EQ(sql("SELECT count(*) FROM once_chunks"), "0");
}

}  // namespace postgres_locks_test
}  // namespace once::store
