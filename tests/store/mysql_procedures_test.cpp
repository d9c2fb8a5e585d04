// What is special about procedures in MySQL: isolation levels, rights, nulls, and that a sweep commits.
// sql/functions.hpp, sql/workers.hpp and sql/sweeps.hpp have the rest.
#include "base/sha256.hpp"
#include "tests/store/mysql_fixture.hpp"

namespace once::mysql_test {
namespace mysql_procedures_test {

constexpr unsigned not_current = 31001;
constexpr unsigned not_valid = 31002;

class MysqlProceduresTest : public MysqlTest {
 protected:
  MysqlProceduresTest() {
    EXPECT_EQ(other().run("CREATE TABLE IF NOT EXISTS ledger (claim VARCHAR(100), amount INT, n INT AUTO_INCREMENT "
                          "PRIMARY KEY)"),
              0U);
  }
  // The work of a backend: one row for each time that it was done.
  static std::string work(const Owner& owner) {
    return fmt::format("INSERT INTO ledger (claim, amount) VALUES ('{}', 100)", owner.claim());
  }
  std::string times_done(const Owner& owner) {
    return other().value(fmt::format("SELECT COUNT(*) FROM ledger WHERE claim = '{}'", owner.claim()));
  }
  static std::string finish(const Owner& owner, std::string_view body = "paid",
                            std::string_view headers = R"({"Content-Type": "text/plain"})") {
    return fmt::format("CALL once_finish('{}', 201, '{}', '{}')", owner.claim(), headers, body);
  }
};

// The gateway writes the row of the claim while the backend's transaction is under way.
TEST_F(MysqlProceduresTest, a_renewal_meanwhile_does_not_keep_a_backend_from_finishing_at_any_isolation_level) {
  const bool has_snapshots = other().run("SELECT @@innodb_snapshot_isolation") == 0;
  for (const std::string_view level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    for (const bool snapshots : {false, true}) {
      if (snapshots && !has_snapshots) continue;
      SCOPED_TRACE(fmt::format("{} {}", level, snapshots));
      Session backend;
      ASSERT_EQ(backend.run(fmt::format("SET SESSION TRANSACTION ISOLATION LEVEL {}", level)), 0U);
      if (snapshots) ASSERT_EQ(backend.run("SET SESSION innodb_snapshot_isolation = ON"), 0U);
      const auto begin_work = [&](const Owner& owner) {
        ASSERT_EQ(backend.run("BEGIN"), 0U);
        backend.value("SELECT COUNT(*) FROM ledger WHERE n = 0");
        ASSERT_EQ(backend.run(work(owner)), 0U);
      };
      const Owner owner = claimed();
      begin_work(owner);
      ASSERT_EQ(run(op_of(Verb::renew, owner)).status, OpStatus::done);
      EXPECT_EQ(backend.run(finish(owner)), 0U);
      ASSERT_EQ(backend.run("COMMIT"), 0U);
      EXPECT_EQ(times_done(owner), "1");
      EXPECT_EQ(lookup(owner).record->state, State::succeeded);

      const Owner slow = claimed();
      begin_work(slow);
      contract::advance_server_clock(std::chrono::minutes(1));
      ASSERT_EQ(claim_again(slow).verdict, Verdict::execute) << "another attempt";
      EXPECT_EQ(backend.run(finish(slow)), not_current);
      ASSERT_EQ(backend.run("COMMIT"), 0U);
      EXPECT_EQ(times_done(slow), "0");
      if (snapshots) EXPECT_EQ(backend.value("SELECT @@innodb_snapshot_isolation"), "1") << "as the backend had it";
    }
  }
}

TEST_F(MysqlProceduresTest, a_backend_needs_no_right_to_the_tables) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run("CREATE USER IF NOT EXISTS backend@'127.0.0.1' IDENTIFIED BY 'backend'; "
                        "GRANT EXECUTE ON PROCEDURE once.once_finish TO backend@'127.0.0.1'"),
            0U);
  Session backend(url_of("once", "backend:backend"));
  EXPECT_NE(backend.run("SELECT COUNT(*) FROM once_operations"), 0U);
  EXPECT_EQ(backend.run(finish(owner)), 0U);
  EXPECT_EQ(claim_again(owner).verdict, Verdict::replay);
}

TEST_F(MysqlProceduresTest, people_can_read_the_keys) {
  const Owner owner = claimed();
  ASSERT_EQ(other().run(finish(owner)), 0U);
  ASSERT_EQ(
      other().run(fmt::format("SELECT tenant, route, state, attempt, expired, started_at IS NOT NULL, outcome_bytes "
                              "FROM once_keys WHERE id = '{}'",
                              to_hex(owner.id))),
      0U);
  ASSERT_EQ(other().rows().size(), 1U);
  const Cells expected = {"acme", "payments", "succeeded", "1", "0", "1", "54"};
  EXPECT_EQ(other().rows().front(), expected);
}

TEST_F(MysqlProceduresTest, no_headers_and_no_body_are_fine_and_a_zero_byte_in_a_header_is_not) {
  const Owner owner = claimed();
  EXPECT_EQ(other().run(fmt::format(R"(CALL once_finish('{}', 200, '{{"A": "x\\u0000y"}}', 'x'))", owner.claim())),
            not_valid);
  EXPECT_NE(other().run(fmt::format("CALL once_finish('{}', 200, 'no json', 'x')", owner.claim())), 0U);
  ASSERT_EQ(other().run(fmt::format("CALL once_finish('{}', 204, NULL, NULL)", owner.claim())), 0U);
  EXPECT_EQ(decode(*lookup(owner).record->outcome), StoredResponse{.status = 204});
}

TEST_F(MysqlProceduresTest, a_workers_id_is_made_of_tenant_and_key_with_their_lengths) {
  const std::string key = to_hex(new_owner().nonce);
  ASSERT_EQ(other().run("CALL once_claim('acme', '" + key + "', '', 30, 3600, 'retry', 0)"), 0U);
  const std::string claim = other().rows().front().at(1).value_or("");
  const std::string text =
      std::string("once worker 1") + std::string("\0\0\0\4", 4) + "acme" + std::string("\0\0\0\x20", 4) + key;
  Sha256 hash;
  hash.update(text);
  EXPECT_EQ(claim.substr(0, 64), to_hex(OperationId{hash.digest()}));
  EXPECT_EQ(other().run("CALL once_claim('t', 'k', 'f', 30, 99999999999, 'retry', 0)"), not_valid) << "too long";
}

// It would have to commit what the caller has not decided upon yet.
TEST_F(MysqlProceduresTest, a_sweep_refuses_to_run_in_a_transaction_and_leaves_it_alone) {
  const Owner expired = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  const Owner mine = claimed();
  ASSERT_EQ(other().run("BEGIN; UPDATE once_operations SET route = 'mine'" + where(mine)), 0U);
  EXPECT_EQ(other().run("CALL once_sweep(100)"), not_valid);
  EXPECT_EQ(other().value("SELECT route FROM once_operations" + where(mine)), "mine");
  ASSERT_EQ(other().run("ROLLBACK"), 0U);
  EXPECT_EQ(other().value("SELECT route FROM once_operations" + where(mine)), "payments");
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_operations" + where(expired)), "1");
  for (const std::string limit : {"0", "NULL"}) EXPECT_EQ(other().run("CALL once_sweep(" + limit + ")"), not_valid);
}

TEST_F(MysqlProceduresTest, a_sweep_needs_no_right_but_to_call_it) {
  const Owner expired = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  ASSERT_EQ(other().run("CREATE OR REPLACE USER sweeper@'127.0.0.1' IDENTIFIED BY 'sweeper';"
                        "GRANT EXECUTE ON PROCEDURE once.once_sweep TO sweeper@'127.0.0.1'"),
            0U);
  Session job(url_of("once", "sweeper:sweeper"));
  EXPECT_NE(job.run("SELECT COUNT(*) FROM once_operations"), 0U);
  EXPECT_NE(job.value("CALL once_sweep(1000000)"), "0");
  EXPECT_EQ(other().value("SELECT COUNT(*) FROM once_operations" + where(expired)), "0");
}

}  // namespace mysql_procedures_test
}  // namespace once::mysql_test
