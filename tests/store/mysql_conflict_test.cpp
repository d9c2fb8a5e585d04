// The MySQL store beside others on the same rows: locks that are held, deadlocks, connections that end.
#include <atomic>
#include <latch>
#include <thread>

#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_conflict_test {

class MysqlConflictTest : public MysqlTest {
 protected:
  // Until somebody waits for a lock. information_schema.innodb_trx would not do: who asks often sees what was before.
  static void wait_for_lock_wait() {
    Session watch;
    const std::chrono::nanoseconds deadline = monotonic_now() + std::chrono::seconds(20);
    while (watch.value("SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
                       "'innodb_row_lock_current_waits'") == "0") {
      ASSERT_LT(monotonic_now(), deadline);
    }
  }
  static std::string connections_but(std::string_view mine) {
    return fmt::format("SELECT id FROM information_schema.processlist WHERE user = 'once' AND id NOT IN ({})", mine);
  }
  static std::string connection_ids() {
    Session watch;
    return watch.value("SELECT GROUP_CONCAT(id) FROM information_schema.processlist");
  }
};

TEST_F(MysqlConflictTest, a_row_that_a_backend_holds_blocks_nobody_else) {
  const Owner held = claimed();
  const Owner free = claimed();
  ASSERT_EQ(other().run("BEGIN; SELECT 1 FROM once_operations" + where(held) + " FOR UPDATE"), 0U);

  Op renewed = op_of(Verb::renew, held);
  Op finished = finish_op(free);
  Op fresh = op_of(Verb::claim, new_owner());
  std::array<Op*, 3> batch = {&renewed, &finished, &fresh};
  store().execute(batch);
  EXPECT_EQ(store().stats().retried, 0U) << "a lock was waited for";
  EXPECT_EQ(renewed.status, OpStatus::failed);
  EXPECT_EQ(renewed.fault, StoreFault::unavailable);
  EXPECT_NE(renewed.error.find("locked"), std::string::npos);
  EXPECT_EQ(finished.status, OpStatus::done);
  EXPECT_EQ(fresh.verdict, Verdict::execute);

  EXPECT_EQ(run(finish_op(held)).status, OpStatus::failed);
  EXPECT_EQ(run(op_of(Verb::release, held)).status, OpStatus::failed);
  EXPECT_EQ(lookup(held).record->state, State::started);
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  EXPECT_EQ(run(op_of(Verb::renew, held)).status, OpStatus::done);
}

TEST_F(MysqlConflictTest, a_server_that_ends_before_the_last_statement_has_done_nothing_for_sure) {
  const auto target = mysql::parse_target(contract::server_url());
  const auto connection = mysql::Connection::open(*target, target->hosts.front(), ServerSettings());
  ASSERT_TRUE(connection.has_value());
  const auto ran = (*connection)->run("BEGIN; SELECT 1", {}, 3);
  ASSERT_FALSE(ran.has_value());
  EXPECT_EQ(ran.error().kind, mysql::SqlError::Kind::lost);
  EXPECT_EQ(ran.error().statement, 2U);
  EXPECT_TRUE((*connection)->run("SELECT 1; COMMIT", {}, 2).has_value());
}

TEST_F(MysqlConflictTest, a_claim_on_a_row_that_somebody_holds_is_in_flight) {
  const Owner held = claimed();
  Op failed = finish_op(held);
  failed.final_state = State::failed;
  ASSERT_EQ(run(failed).status, OpStatus::done);
  ASSERT_EQ(other().run("BEGIN; SELECT 1 FROM once_operations" + where(held) + " FOR UPDATE"), 0U);
  const Op op = claim_again(held);
  EXPECT_EQ(op.status, OpStatus::done);
  EXPECT_EQ(op.verdict, Verdict::in_flight);
  EXPECT_TRUE(op.record.has_value());
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  EXPECT_EQ(claim_again(held).verdict, Verdict::execute);
}

TEST_F(MysqlConflictTest, one_that_lost_its_claim_is_told_so_although_somebody_holds_the_row) {
  const Owner held = claimed();
  ASSERT_EQ(other().run("BEGIN; SELECT 1 FROM once_operations" + where(held) + " FOR UPDATE"), 0U);
  EXPECT_EQ(run(finish_op({held.id, new_owner().nonce})).status, OpStatus::lost);
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
}

TEST_F(MysqlConflictTest, a_stale_owner_does_not_keep_the_row_from_the_owner) {
  const Owner owner = claimed();
  std::atomic<bool> stop{false};
  std::atomic<int> lost{0};
  std::vector<std::jthread> stale;
  for (int i = 0; i < 3; ++i) {
    stale.emplace_back([&, wrong = Owner{owner.id, new_owner().nonce}] {
      while (!stop) lost += run(op_of(Verb::renew, wrong)).status == OpStatus::lost ? 1 : 0;
    });
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(run(op_of(Verb::renew, owner)).status, OpStatus::done) << i;
  stop = true;
  stale.clear();
  EXPECT_GT(lost, 0);
}

TEST_F(MysqlConflictTest, a_replay_writes_nothing_and_locks_nothing) {
  const Owner owner = claimed();
  ASSERT_EQ(run(finish_op(owner, "the answer")).status, OpStatus::done);
  const std::string changes =
      "SELECT SUM(variable_value) FROM information_schema.global_status WHERE variable_name IN ('com_insert', "
      "'com_update', 'com_update_multi', 'com_delete', 'com_delete_multi', 'com_begin', 'com_commit')";
  // Somebody who holds the row does not matter to one who only reads it.
  ASSERT_EQ(other().run("BEGIN; SELECT 1 FROM once_operations" + where(owner) + " FOR UPDATE"), 0U);
  const std::string before = other().value(changes);
  for (int i = 0; i < 10; ++i) {
    const Op op = claim_again(owner);
    EXPECT_EQ(op.verdict, Verdict::replay);
    EXPECT_EQ(*op.record->outcome, "the answer");
  }
  EXPECT_EQ(other().value(changes), before);
  EXPECT_EQ(store().stats().retried, 0U);
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
}

// We hold `finished` and wait for `fresh`; the other one holds `fresh` and wants `finished`.
TEST_F(MysqlConflictTest, a_deadlock_is_tried_again) {
  const Owner finished = claimed();
  const Owner fresh = new_owner();
  ASSERT_EQ(
      other().run(fmt::format("BEGIN; INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, "
                              "started_at, lease_until, expires_at, ttl) VALUES (0x{}, 0, 1, 1, '', '', 0, 0, 0, 0)",
                              to_hex(fresh.id))),
      0U);
  Op finish = finish_op(finished);
  Op claim = op_of(Verb::claim, fresh);
  {
    const std::jthread gateway([&] {
      std::array<Op*, 2> batch = {&finish, &claim};
      store().execute(batch);
    });
    wait_for_lock_wait();
    EXPECT_EQ(other().run("UPDATE once_operations SET route = route" + where(finished)), 0U);
    ASSERT_EQ(other().run("ROLLBACK"), 0U);
  }
  EXPECT_EQ(finish.status, OpStatus::done) << finish.error;
  EXPECT_EQ(claim.status, OpStatus::done) << claim.error;
  EXPECT_EQ(claim.verdict, Verdict::execute);
  EXPECT_GE(store().stats().retried, 1U);
  EXPECT_EQ(lookup(finished).record->state, State::succeeded);
}

TEST_F(MysqlConflictTest, an_idle_connection_that_was_killed_costs_nothing) {
  const std::string others = connection_ids();
  const auto store = open_store(1);
  const Owner owner = claimed();
  const std::string id = other().value(connections_but(others + ",CONNECTION_ID()"));
  ASSERT_EQ(other().run("KILL " + id), 0U);
  EXPECT_EQ(run_on(*store, finish_op(owner)).status, OpStatus::done);
  EXPECT_EQ(store->stats().connects, 2U);
  EXPECT_EQ(store->stats().connections, 1U);
  EXPECT_EQ(store->stats().indeterminate, 0U);
}

TEST_F(MysqlConflictTest, a_connection_killed_while_it_writes_leaves_its_ops_open_and_the_next_batch_works) {
  const std::string others = connection_ids();
  const auto store = open_store(1);
  const std::string id = other().value(connections_but(others + ",CONNECTION_ID()"));
  const Owner owner = new_owner();
  Session holder;
  ASSERT_EQ(
      holder.run(fmt::format("BEGIN; INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, "
                             "started_at, lease_until, expires_at, ttl) VALUES (0x{}, 0, 1, 1, '', '', 0, 0, 0, 0)",
                             to_hex(owner.id))),
      0U);
  Op claim = op_of(Verb::claim, owner);
  {
    const std::jthread gateway([&] { claim = run_on(*store, claim); });
    wait_for_lock_wait();
    ASSERT_EQ(other().run("KILL " + id), 0U);
  }
  EXPECT_EQ(claim.status, OpStatus::failed);
  EXPECT_EQ(claim.fault, StoreFault::unavailable);
  EXPECT_EQ(claim.error.find(to_hex(owner.id)), std::string::npos);
  EXPECT_EQ(store->stats().indeterminate, 1U);
  ASSERT_EQ(holder.run("ROLLBACK"), 0U);
  const Op again = run_on(*store, op_of(Verb::claim, owner));
  EXPECT_EQ(again.verdict, Verdict::execute);
  EXPECT_EQ(again.record->attempt, Attempt{1});
}

// In a cluster each is at another node; otherwise both are at the same server.
class MysqlGatewaysTest : public MysqlTest {
 protected:
  static std::vector<std::unique_ptr<MysqlStore>> a_store_at_each_host() {
    const auto target = mysql::parse_target(contract::server_url());
    std::vector<std::unique_ptr<MysqlStore>> stores;
    for (const StoreHost& host : target->hosts) {
      std::string url = contract::server_url();
      const std::size_t hosts = url.find('@') + 1;
      url.replace(hosts, url.rfind('/') - hosts, fmt::format("{}:{}", host.name, host.port));
      stores.push_back(opened(url));
    }
    if (stores.size() == 1) stores.push_back(open_store());
    return stores;
  }
};

TEST_F(MysqlGatewaysTest, what_one_wrote_another_knows_at_once) {
  const auto stores = a_store_at_each_host();
  for (int i = 0; i < 20; ++i) {
    const Owner owner = new_owner();
    ASSERT_EQ(run_on(*stores.front(), op_of(Verb::claim, owner)).verdict, Verdict::execute);
    EXPECT_EQ(run_on(*stores.back(), op_of(Verb::renew, owner)).status, OpStatus::done);
    EXPECT_EQ(run_on(*stores.back(), finish_op(owner)).status, OpStatus::done);
    EXPECT_EQ(run_on(*stores.front(), op_of(Verb::claim, {owner.id, new_owner().nonce})).verdict, Verdict::replay);
  }
}

// A node that has not yet applied what another committed must not say that the claim is lost.
TEST_F(MysqlGatewaysTest, an_owner_at_a_node_that_lags_behind_is_not_told_that_it_lost) {
  const auto target = mysql::parse_target(contract::server_url());
  if (target->hosts.size() == 1) GTEST_SKIP() << "one server has nobody to lag behind";
  const auto stores = a_store_at_each_host();
  const StoreHost& last = target->hosts.back();
  Session lagging(fmt::format("mysql://once:once@{}:{}/once", last.name, last.port));
  ASSERT_EQ(lagging.run("SET SESSION wsrep_sync_wait = 0; FLUSH TABLES WITH READ LOCK"), 0U);
  const Owner owner = new_owner();
  EXPECT_EQ(run_on(*stores.front(), op_of(Verb::claim, owner)).verdict, Verdict::execute);
  Op finish = finish_op(owner);
  std::atomic<bool> answered{false};
  {
    const std::jthread gateway([&] {
      finish = run_on(*stores.back(), finish);
      answered = true;
    });
    const std::string waiting =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE command = 'Query' AND user = 'once' AND id <> "
        "CONNECTION_ID()";
    const std::chrono::nanoseconds deadline = monotonic_now() + std::chrono::seconds(4);
    while (!answered && lagging.value(waiting) == "0" && monotonic_now() < deadline) {
    }
    EXPECT_EQ(lagging.run("UNLOCK TABLES"), 0U);
  }
  EXPECT_EQ(finish.status, OpStatus::done) << finish.error;
}

TEST_F(MysqlGatewaysTest, of_many_at_once_on_one_key_exactly_one_executes_whatever_host_they_are_at) {
  const auto stores = a_store_at_each_host();
  for (int round = 0; round < 20; ++round) {
    const Owner owner = new_owner();
    std::atomic<int> executes{0};
    std::atomic<int> in_flight{0};
    std::latch together(6);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 6; ++i) {
      threads.emplace_back([&, i, mine = Owner{owner.id, new_owner().nonce}] {
        together.arrive_and_wait();
        const Op op = run_on(*stores[i % stores.size()], op_of(Verb::claim, mine));
        EXPECT_EQ(op.status, OpStatus::done) << op.error;
        executes += op.verdict == Verdict::execute ? 1 : 0;
        in_flight += op.verdict == Verdict::in_flight ? 1 : 0;
      });
    }
    threads.clear();
    EXPECT_EQ(executes, 1);
    EXPECT_EQ(in_flight, 5);
  }
}

}  // namespace mysql_conflict_test
}  // namespace once::mysql_test
