// once_sweep: a job that removes what has expired, in SQL alone.
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_sweep_function_test {

class PostgresSweepFunction : public PostgresTest {
 protected:
  PostgresSweepFunction() {
    EXPECT_TRUE(postgres::apply_schema(database_.url(), ServerSettings()).has_value());
    store_ = open(ServerSettings(), database_.url());
    sql_ = std::make_unique<Sql>(database_.url());
  }

  Started finished(Duration tombstone = {}) {
    const Started it{new_id(), new_nonce()};
    Op claim = op(Verb::claim, it.id, it.nonce);
    claim.terms.tombstone = tombstone;
    EXPECT_EQ(run(*store_, claim).verdict, Verdict::execute);
    EXPECT_EQ(run(*store_, finish_op(it.id, it.nonce)).status, OpStatus::done);
    return it;
  }
  // Every operation that was finished by now has expired.
  static void wait_for_expiry() { contract::advance_server_clock(std::chrono::hours(1) + std::chrono::seconds(1)); }
  std::string rows(const Started& it) { return sql("SELECT count(*) FROM " + it.row()); }
  std::string sql(const std::string& text, int columns = 1) { return (*sql_)(text, columns); }

  OwnDatabase database_;
  std::unique_ptr<PostgresStore> store_;
  std::unique_ptr<Sql> sql_;
};

TEST_F(PostgresSweepFunction, removes_what_expired_up_to_its_limit_and_nothing_else) {
  for (int i = 0; i < 7; ++i) finished();
  wait_for_expiry();
  const Started lasting = finished();
  EXPECT_EQ(sql("SELECT once_sweep(4)"), "4");
  EXPECT_EQ(sql("SELECT once_sweep()"), "3");
  EXPECT_EQ(sql("SELECT once_sweep()"), "0");
  EXPECT_EQ(sql("SELECT count(*) FROM once_operations"), "1");
  EXPECT_EQ(rows(lasting), "1");
}

TEST_F(PostgresSweepFunction, leaves_running_and_locked_rows) {
  const Started held = finished();
  const Started free = finished();
  const Started at_work = started(*store_);
  wait_for_expiry();
  sql("UPDATE once_operations SET lease_until = statement_timestamp() + interval '1 minute' WHERE id = '\\x" +
      to_hex(at_work.id) + "'");
  Sql holder(database_.url());
  holder("BEGIN");
  holder("SELECT 1 FROM " + held.row() + " FOR UPDATE");
  EXPECT_EQ(sql("SELECT once_sweep()"), "1");
  EXPECT_EQ(rows(free), "0");
  holder("COMMIT");
  EXPECT_EQ(sql("SELECT once_sweep()"), "1");
  EXPECT_EQ(rows(at_work), "1");
}

TEST_F(PostgresSweepFunction, makes_tombstones_without_outcomes_of_what_is_remembered) {
  const Started it = finished(std::chrono::hours(24));
  wait_for_expiry();
  EXPECT_EQ(sql("SELECT once_sweep()"), "1");
  EXPECT_EQ(sql("SELECT state, outcome IS NULL FROM " + it.row(), 2), "4|t");
  EXPECT_EQ(sql("SELECT once_sweep()"), "0");
  EXPECT_EQ(run(*store_, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::gone);
  contract::advance_server_clock(std::chrono::hours(24));
  EXPECT_EQ(sql("SELECT once_sweep()"), "1");
  EXPECT_EQ(rows(it), "0");
}

TEST_F(PostgresSweepFunction, without_a_limit_it_does_nothing) {
  const Started it = finished();
  wait_for_expiry();
  EXPECT_EQ(sql("SELECT once_sweep(NULL) IS NULL"), "t");
  EXPECT_EQ(rows(it), "1");
}

TEST_F(PostgresSweepFunction, needs_no_right_but_to_call_it) {
  const Started it = finished();
  wait_for_expiry();
  sql("DROP ROLE IF EXISTS once_sweeper; CREATE ROLE once_sweeper");
  Sql job(database_.url());
  job("SET ROLE once_sweeper");
  EXPECT_EQ(job.state("SELECT once_sweep()"), "42501") << "not everybody may";
  sql("GRANT EXECUTE ON FUNCTION once_sweep(integer) TO once_sweeper");
  EXPECT_EQ(job.state("SELECT count(*) FROM once_operations"), "42501");
  EXPECT_EQ(job("SELECT once_sweep()"), "1");
  EXPECT_EQ(rows(it), "0");
  sql("REVOKE ALL ON FUNCTION once_sweep(integer) FROM once_sweeper; DROP ROLE once_sweeper");
}

}  // namespace postgres_sweep_function_test
}  // namespace once::store
