// How PostgreSQL finds rows, whatever the size of the table was when the statements were planned.
#include "store/postgres/statements.hpp"
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_plans_test {

class PostgresManyKeys : public PostgresTest {
 protected:
  PostgresManyKeys() : sql_(database_.url()) {
    EXPECT_TRUE(postgres::apply_schema(database_.url(), ServerSettings()).has_value());
    // As a session of the store has it.
    sql_(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; "
        "SET plan_cache_mode = force_generic_plan");
  }
  void fill(int rows) {
    sql_(fmt::format(
        "INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, lease_until, "
        "expires_at, sweep_at, ttl, tenant, route, outcome) SELECT sha256(n::text::bytea), 1, 1, 1, '\\x01', "
        "'\\x01', now(), now(), now() + '1 h', now() + '1 h', '1 h', 'acme', '/', "
        "convert_to(repeat('x', 1400), 'UTF8') FROM generate_series(1, {}) AS n",
        rows));
    sql_("ANALYZE once_operations");
  }
  std::string plan_of(postgres::Statement statement) {
    sql_(fmt::format("PREPARE looked_at AS {}", postgres::sql_of(statement)));
    const std::string nulls = sql_(
        "SELECT array_to_string(array_fill('NULL'::text, ARRAY[cardinality(parameter_types)]), ', ') "
        "FROM pg_prepared_statements WHERE name = 'looked_at'");
    const std::string plan = sql_("EXPLAIN EXECUTE looked_at(" + nulls + ")");
    sql_("DEALLOCATE looked_at");
    return plan;
  }

  OwnDatabase database_;
  Sql sql_;
};

TEST_F(PostgresManyKeys, what_waits_for_somebody_is_found_by_an_index_of_those_only) {
  for (const int rows : {0, 10'000}) {
    fill(rows);
    for (const auto statement :
         {postgres::Statement::page_started, postgres::Statement::page_failed, postgres::Statement::page_unknown,
          postgres::Statement::count_started, postgres::Statement::count_failed, postgres::Statement::count_unknown}) {
      const std::string plan = plan_of(statement);
      EXPECT_NE(plan.find("once_operations_open"), std::string::npos) << plan;
      EXPECT_EQ(plan.find("Seq Scan on once_operations"), std::string::npos) << plan;
      EXPECT_EQ(plan.find("Sort Key: o."), std::string::npos) << plan;
    }
  }
}

// Not by the index of those that wait for somebody, although it is smaller: it is read from end to end for each batch,
// with all that were in it since it was vacuumed last.
TEST_F(PostgresManyKeys, requests_find_their_rows_by_the_primary_key) {
  using postgres::Statement;
  for (const int rows : {0, 10'000}) {
    fill(rows);
    for (const auto statement :
         {Statement::claim, Statement::seize, Statement::take, Statement::renew, Statement::finish, Statement::release,
          Statement::forget, Statement::resolve, Statement::wait, Statement::read, Statement::hold, Statement::append,
          Statement::read_chunks}) {
      const std::string plan = plan_of(statement);
      for (const std::string_view line : split(plan, '\n')) {
        for (const std::string table : {"once_operations", "once_chunks"}) {
          if (!line.contains("Scan") || !line.contains(" on " + table)) continue;
          EXPECT_TRUE(line.contains(table + "_pkey")) << postgres::name_of(statement) << "\n" << plan;
        }
      }
    }
  }
}

}  // namespace postgres_plans_test
}  // namespace once::store
