// What is special about functions in PostgreSQL: isolation levels, rights, arguments left out. sql/functions.hpp and
// sql/workers.hpp have the rest.
#include <array>
#include <atomic>
#include <thread>

#include "core/outcome.hpp"
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_functions_test {

class PostgresFunctions : public PostgresTest {
 protected:
  // Claims, and gives what once_finish() takes.
  std::string worker_claim(const std::string& arguments) {
    return sql_("SELECT claim FROM once_claim(" + arguments + ")");
  }
  std::string new_key() { return "'" + to_hex(new_owner().nonce) + "'"; }
  Sql sql_;
};

constexpr std::array isolation_levels = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};

// Above READ COMMITTED a transaction cannot write to a row that anybody wrote to since it began.
TEST_F(PostgresFunctions, renewals_and_waiters_meanwhile_do_not_keep_a_backend_from_finishing_at_any_isolation_level) {
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    Sql backend;
    backend("CREATE TEMP TABLE payments (amount int)");
    const auto begin_work = [&] { backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO payments VALUES (5)"); };
    const Owner it = claimed();
    const std::string finish = "SELECT once_finish('" + it.claim() + "', 201)";
    begin_work();
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(run(op_of(Verb::renew, it)).status, OpStatus::done);
      Op waiting = op_of(Verb::lookup, it);
      waiting.waits = Waits::yes;
      ASSERT_EQ(run(waiting).record->state, State::started);
      sql_("SELECT once_renew('" + it.claim() + "')");
    }
    EXPECT_EQ(backend.state(finish), "none");
    EXPECT_EQ(run(op_of(Verb::renew, it)).status, OpStatus::done) << "until it is committed";
    backend("COMMIT");
    EXPECT_EQ(run(op_of(Verb::lookup, it)).record->state, State::succeeded);
    begin_work();
    EXPECT_EQ(backend.state(finish), "ON001") << "it was done";
    backend("ROLLBACK");
    EXPECT_EQ(backend("SELECT count(*) FROM payments"), "1");
    backend("DROP TABLE payments");
  }
}

// With a gateway that does nothing but renew.
TEST_F(PostgresFunctions, a_backend_finishes_at_its_first_try_however_often_its_claim_is_renewed) {
  constexpr int operations = 10;
  sql_("CREATE TABLE effects_of_many (claim text)");
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    Sql backend;
    sql_("TRUNCATE effects_of_many");
    for (int i = 0; i < operations; ++i) {
      const Owner it = claimed();
      std::atomic<int> renewed = 0;
      std::atomic<bool> ended = false;
      std::jthread gateway([&] {
        while (!ended) renewed += run(op_of(Verb::renew, it)).status == OpStatus::done ? 1 : 0;
      });
      backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO effects_of_many VALUES ('" + it.claim() + "')");
      const int before = renewed;
      const auto until = monotonic_now() + std::chrono::minutes(1);
      while (renewed < before + 2 && monotonic_now() < until) std::this_thread::yield();
      EXPECT_GE(renewed, before + 2);
      EXPECT_EQ(backend.state("SELECT once_finish('" + it.claim() + "', 200)"), "none");
      EXPECT_EQ(backend.state("COMMIT"), "none");
      ended = true;
    }
    EXPECT_EQ(sql_("SELECT count(*), count(DISTINCT claim) FROM effects_of_many", 2), "10|10");
  }
}

TEST_F(PostgresFunctions, at_stricter_isolation_levels_a_takeover_meanwhile_takes_the_effect_back) {
  for (const std::string level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    SCOPED_TRACE(level);
    Sql backend;
    backend("CREATE TEMP TABLE payments (amount int)");
    const auto begin_work = [&] { backend("BEGIN ISOLATION LEVEL " + level + "; INSERT INTO payments VALUES (5)"); };
    const Owner it = claimed();
    begin_work();
    contract::advance_server_clock(std::chrono::seconds(31));
    ASSERT_EQ(run(op_of(Verb::claim, other_owner(it))).verdict, Verdict::execute);
    const std::string finish = "SELECT once_finish('" + it.claim() + "', 201)";
    EXPECT_EQ(backend.state(finish), "40001");
    backend("ROLLBACK");
    begin_work();
    EXPECT_EQ(backend.state(finish), "ON001");
    backend("ROLLBACK");
    EXPECT_EQ(backend("SELECT count(*) FROM payments"), "0");
    backend("DROP TABLE payments");
  }
}

TEST_F(PostgresFunctions, a_worker_that_renewed_meanwhile_is_not_taken_over_at_any_isolation_level) {
  for (const std::string level : isolation_levels) {
    SCOPED_TRACE(level);
    const std::string key = "'', " + new_key();
    const std::string claim = worker_claim(key);
    contract::advance_server_clock(std::chrono::seconds(31));
    Sql other;
    other("BEGIN ISOLATION LEVEL " + level + "; SELECT count(*) FROM once_leases");
    sql_("SELECT once_renew('" + claim + "')");
    const std::string take = "SELECT verdict FROM once_claim(" + key + ", on_unknown => 'retry')";
    if (level == "READ COMMITTED") {
      EXPECT_EQ(other(take), "in_flight");
    } else {
      EXPECT_EQ(other.state(take), "40001");
    }
    other("ROLLBACK");
    EXPECT_EQ(other(take), "in_flight");
    EXPECT_EQ(sql_.state("SELECT once_finish('" + claim + "', 200)"), "none");
  }
}

TEST_F(PostgresFunctions, a_lease_finer_than_a_millisecond_does_not_keep_others_from_claiming) {
  const Owner it = claimed();
  sql_("SELECT once_renew('" + it.claim() + "', interval '10 seconds' / 3)");
  contract::advance_server_clock(std::chrono::seconds(5));
  Op claim = op_of(Verb::claim, other_owner(it));
  claim.terms.on_unknown = OnUnknown::retry;
  EXPECT_EQ(run(claim).verdict, Verdict::execute);
}

TEST_F(PostgresFunctions, the_nonce_of_nobody_is_no_claim) {
  const Owner it = claimed();
  ASSERT_EQ(run(op_of(Verb::finish, it)).status, OpStatus::done);
  sql_("UPDATE once_operations SET state = 3, nonce = decode(repeat('00', 16), 'hex') WHERE id = '\\x" + to_hex(it.id) +
       "'");
  EXPECT_EQ(sql_.state("SELECT once_finish('" + to_hex(it.id) + "." + std::string(32, '0') + "', 200)"), "ON001");
}

TEST_F(PostgresFunctions, arguments_may_be_left_out_but_are_not_null) {
  const Owner it = claimed();
  EXPECT_EQ(sql_.state("SELECT once_finish('" + it.claim() + "', 200, NULL)"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_finish(NULL, 200)"), "ON002");
  EXPECT_EQ(sql_.state("SELECT once_finish('" + it.claim() + "', 204)"), "none");
  EXPECT_EQ(*run(op_of(Verb::lookup, it)).record->outcome, encode({.status = 204}));
  const std::string claim = worker_claim("'', " + new_key());
  EXPECT_EQ(claim.size(), 97U);
  EXPECT_EQ(sql_.state("SELECT once_renew('" + claim + "')"), "none");
}

TEST_F(PostgresFunctions, a_backend_that_does_not_wait_for_its_commits_waits_for_this_one) {
  const Owner it = claimed();
  EXPECT_EQ(sql_("BEGIN; SET LOCAL synchronous_commit = off; SELECT once_finish('" + it.claim() +
                 "', 200); SELECT current_setting('synchronous_commit')"),
            "on");
  sql_("ROLLBACK");
}

TEST_F(PostgresFunctions, a_backend_needs_the_right_to_the_functions_and_none_to_the_tables) {
  sql_.state("CREATE ROLE backend LOGIN");
  const std::string url = contract::server_url();
  Sql backend("postgres://backend@" + url.substr(url.find('@') + 1));
  const Owner it = claimed();
  const std::string finish = "SELECT once_finish('" + it.claim() + "', 200)";
  EXPECT_EQ(backend.state(finish), "42501");
  sql_("GRANT EXECUTE ON FUNCTION once_finish(text, integer, jsonb, text) TO backend");
  EXPECT_EQ(backend.state("SELECT * FROM once_operations"), "42501");
  // Names that a caller plants are not found.
  EXPECT_EQ(backend.state("CREATE TEMP TABLE once_operations (id bytea); CREATE FUNCTION pg_temp.once_owned(text) "
                          "RETURNS int LANGUAGE sql AS 'SELECT 1'"),
            "none");
  EXPECT_EQ(backend.state("SET search_path = pg_temp, public; " + finish), "none");
  EXPECT_EQ(run(op_of(Verb::lookup, it)).record->state, State::succeeded);
}

TEST_F(PostgresFunctions, a_sweep_without_a_limit_does_nothing_and_needs_no_right_but_to_call_it) {
  const Owner it = claimed();
  contract::advance_server_clock(std::chrono::hours(25));
  EXPECT_EQ(sql_("SELECT once_sweep(NULL) IS NULL"), "t");
  EXPECT_EQ(sql_("SELECT count(*) FROM " + row(it)), "1");
  sql_("DROP ROLE IF EXISTS once_sweeper; CREATE ROLE once_sweeper");
  Sql job;
  job("SET ROLE once_sweeper");
  EXPECT_EQ(job.state("SELECT once_sweep()"), "42501") << "not everybody may";
  sql_("GRANT EXECUTE ON FUNCTION once_sweep(integer) TO once_sweeper");
  EXPECT_EQ(job.state("SELECT count(*) FROM once_operations"), "42501");
  EXPECT_EQ(job.state("SELECT once_sweep(1000000)"), "none");
  EXPECT_EQ(sql_("SELECT count(*) FROM " + row(it)), "0");
  sql_("REVOKE ALL ON FUNCTION once_sweep(integer) FROM once_sweeper; DROP ROLE once_sweeper");
}

TEST_F(PostgresFunctions, people_read_the_keys_in_a_view) {
  const Owner it = claimed();
  const std::string view = "SELECT state, attempt, expired FROM once_keys WHERE id = '" + to_hex(it.id) + "'";
  EXPECT_EQ(sql_(view, 3), "started|1|f");
  contract::advance_server_clock(std::chrono::seconds(31));
  EXPECT_EQ(sql_(view, 3), "lapsed|1|f");
  ASSERT_EQ(run(op_of(Verb::renew, it)).status, OpStatus::done);
  EXPECT_EQ(sql_(view, 3), "started|1|f");
  ASSERT_EQ(run(op_of(Verb::release, it)).status, OpStatus::done);
  EXPECT_EQ(sql_(view, 3), "released|0|t");
}

// Gateways round to the millisecond, in half of all cases up.
TEST_F(PostgresFunctions, a_key_is_expired_in_the_view_at_the_very_moment_of_its_release) {
  const Owner it = claimed();
  ASSERT_EQ(run(op_of(Verb::release, it)).status, OpStatus::done);
  for (int i = 0; i < 20; ++i) {
    // One message to the server, so one moment for both statements.
    const std::string seen =
        sql_("UPDATE once_operations SET expires_at = statement_timestamp()::timestamptz(3) WHERE id = '\\x" +
             to_hex(it.id) + "'; SELECT expired FROM once_keys WHERE id = '" + to_hex(it.id) + "'");
    EXPECT_EQ(seen, "t");
  }
}

}  // namespace postgres_functions_test
}  // namespace once::store
