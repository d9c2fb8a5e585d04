// The schema of PostgreSQL over its revisions: programs of two versions beside each other, and one brought up to date
// under load. And what operators ask for, in a table that is too large to be read.
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>

#include "store/postgres/statements.hpp"
#include "tests/store/postgres_support.hpp"
#include "tests/store/schema_upgrade.hpp"

namespace once::store {
namespace postgres_schema_test {

// As a program of this revision printed it.
std::string schema_of(int revision) {
  std::ifstream file(fmt::format("{}/schema_{}/postgres.sql", ONCE_SCHEMAS, revision));
  EXPECT_TRUE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}
std::string schema_1() {
  return schema_of(1);
}

// What a gateway of revision 1 does to its own operations, in its own words.
class OldGateway {
 public:
  explicit OldGateway(const std::string& url) : sql_(url) {
    EXPECT_EQ(sql_("SELECT max(version) FROM once_schema"), "1") << "or it would not start";
  }

  void work(const OperationId& id, const Nonce& nonce) {
    const std::string key = "'\\x" + to_hex(id) + "'";
    const std::string mine = " WHERE id = " + key + " AND nonce = '\\x" + to_hex(nonce) + "' AND state = 0 RETURNING 1";
    EXPECT_EQ(
        sql_("INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, lease_until, "
             "expires_at, sweep_at, ttl, tombstone, tenant, route) VALUES (" +
             key + ", 0, 1, 1, '\\x01', '\\x" + to_hex(nonce) +
             "', now(), now() + '30 s', now() + '1 h', now() + '1 h', '1 h', '0', 'acme', '/') ON CONFLICT (id) DO "
             "NOTHING RETURNING 1"),
        "1");
    EXPECT_EQ(sql_("UPDATE once_operations SET lease_until = now() + '30 s'" + mine), "1");
    EXPECT_EQ(sql_("UPDATE once_operations SET state = 1, outcome = 'old', expires_at = now() + '1 h'" + mine), "1");
  }
  std::string outcome(const OperationId& id) {
    return sql_("SELECT convert_from(outcome, 'UTF8') FROM once_operations WHERE id = '\\x" + to_hex(id) + "'");
  }

 private:
  Sql sql_;
};

class PostgresSchema : public PostgresTest {
 protected:
  static std::string error_of(const std::string& url) {
    const auto opened = PostgresStore::open(url, ServerSettings(), quiet_log());
    return opened ? "opened" : opened.error().detail;
  }
};

TEST_F(PostgresSchema, a_newer_schema_is_used_if_it_says_that_this_program_can) {
  const OwnDatabase database;
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
  Sql sql(database.url());
  sql("UPDATE once_schema SET revision = 7, version = 6; ALTER TABLE once_operations ADD COLUMN later text DEFAULT "
      "'x'");
  const auto store = open(ServerSettings(), database.url());
  const Started it = started(*store);
  EXPECT_EQ(run(*store, finish_op(it.id, it.nonce)).status, OpStatus::done);
  EXPECT_EQ(*postgres::apply_schema(database.url(), ServerSettings()),
            "schema revision 7 is there, newer than this program's 6, which can use it");
  EXPECT_EQ(sql("SELECT revision FROM once_schema"), "7");

  sql("UPDATE once_schema SET version = 7");
  EXPECT_NE(error_of(database.url()).find("needs a program for revision 7 or newer; this one is for 6"),
            std::string::npos);
  EXPECT_FALSE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
}

TEST_F(PostgresSchema, an_older_schema_says_what_to_run) {
  const OwnDatabase database;
  Sql(database.url())(schema_1());
  EXPECT_NE(error_of(database.url()).find("has revision 1, this program needs 6: run `once schema postgres --apply"),
            std::string::npos);
}

// Revision 6 has a column more; programs of revision 5 go on.
TEST_F(PostgresSchema, the_schema_of_the_revision_before_gets_what_is_new_and_keeps_its_rows) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_of(5));
  EXPECT_EQ(sql("SELECT version, revision FROM once_schema", 2), "5|5");
  sql("SELECT once_claim('acme', 'one', '', '30 s', '1 min', 'retry', '0')");
  EXPECT_EQ(*postgres::apply_schema(database.url(), ServerSettings()), "schema brought from revision 5 to 6");
  EXPECT_EQ(sql("SELECT version, revision FROM once_schema", 2), "5|6");
  EXPECT_EQ(sql("SELECT count(*) FROM once_operations WHERE chunks_fence = 0"), "1");
  EXPECT_EQ(sql("SELECT 'fillfactor=85' = ANY (reloptions) FROM pg_class WHERE oid = 'once_operations'::regclass"),
            "t");
  EXPECT_EQ(sql("SELECT once_sweep()"), "0");
  const auto store = open(ServerSettings(), database.url());
  const Started it = started(*store);
  EXPECT_EQ(append(*store, it, 0, "head"), OpStatus::done);
  ASSERT_EQ(run(*store, in_chunks(finish_op(it.id, it.nonce))).status, OpStatus::done);
  EXPECT_EQ(sql("SELECT body_kept, chunks_fence = fence FROM " + it.row(), 2), "f|t") << "an older one: not kept";
  EXPECT_EQ(sql("SELECT body_in_chunks FROM once_keys WHERE id = '" + to_hex(it.id) + "'"), "t");
  EXPECT_EQ(chunks(*store, it), "head");

  // As a program of revision 5 executes it again after it has expired, and keeps no body.
  sql("UPDATE once_operations SET state = 0, body_kept = true, outcome = NULL, fence = fence + 1, nonce = '\\x" +
      to_hex(new_nonce()) + "' WHERE id = '\\x" + to_hex(it.id) + "'");
  sql("UPDATE once_operations SET state = 1, body_kept = false, outcome = 'x' WHERE id = '\\x" + to_hex(it.id) + "'");
  EXPECT_EQ(run(*store, op(Verb::lookup, it.id, {})).record->body_kept, BodyKept::no);
  EXPECT_EQ(sql("SELECT body_in_chunks FROM once_keys WHERE id = '" + to_hex(it.id) + "'"), "f");
}

// It needs the table for itself, and whoever comes after it waits for it.
TEST_F(PostgresSchema, the_new_column_keeps_nobody_waiting_while_a_transaction_is_open) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_of(5));
  schema_upgrade::Load load;
  load.add([&] {
    return [backend = std::make_shared<Sql>(database.url()), random = std::make_shared<SystemRandom>()] {
      const std::string claim = (*backend)("SELECT claim FROM once_claim('acme', '" + to_hex(random->nonce()) + "')");
      EXPECT_EQ(backend->state("SELECT once_finish('" + claim + "', 200, '{}', 'done')"), "none");
    };
  });
  Sql slow(database.url());
  slow("BEGIN; SELECT count(*) FROM once_operations");
  std::optional<Result<std::string>> applied;
  std::jthread upgrade([&] { applied = postgres::apply_schema(database.url(), ServerSettings()); });
  sql.wait_for(
      "EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE once_operations ADD%' AND datname = "
      "current_database())");
  EXPECT_TRUE(load.goes_on());
  slow("COMMIT");
  upgrade.join();
  ASSERT_TRUE(applied->has_value()) << applied->error().detail;
  EXPECT_EQ(**applied, "schema brought from revision 5 to 6");
}

// An index that a broken connection left unfinished is made again.
TEST_F(PostgresSchema, an_upgrade_that_was_interrupted_is_completed) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_1());
  sql("CREATE INDEX once_operations_unsettled ON once_operations (state, id) WHERE state IN (0, 2, 3)");
  sql("CREATE INDEX once_operations_open ON once_operations (state, id) WHERE (state IN (0, 2, 3)) IS TRUE");
  sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'once_operations_open'::regclass");
  EXPECT_EQ(*postgres::apply_schema(database.url(), ServerSettings()), "schema brought from revision 1 to 6");
  EXPECT_EQ(sql("SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'once_operations'::regclass "
                "ORDER BY indexrelid::regclass::text",
                2),
            "once_operations_open|t\nonce_operations_pkey|t\nonce_operations_sweep|t");
}

// Gateways of revision 1, backends and a transaction that stays open, while the schema is brought up to date; then
// gateways of both revisions on it, and back to the old ones.
TEST_F(PostgresSchema, two_versions_work_beside_each_other_through_an_upgrade) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_1());
  schema_upgrade::Load load;
  load.add([&] {
    return [gateway = std::make_shared<OldGateway>(database.url()), random = std::make_shared<SystemRandom>()] {
      OperationId id;
      random->fill(id.bytes);
      gateway->work(id, random->nonce());
    };
  });
  load.add([&] {
    return [backend = std::make_shared<Sql>(database.url()), random = std::make_shared<SystemRandom>()] {
      const std::string claim = (*backend)("SELECT claim FROM once_claim('acme', '" + to_hex(random->nonce()) + "')");
      (*backend)("SELECT once_renew('" + claim + "')");
      EXPECT_EQ(backend->state("SELECT once_finish('" + claim + "', 200, '{}', 'done')"), "none");
    };
  });
  ASSERT_TRUE(load.goes_on());
  Sql slow(database.url());
  slow(
      "BEGIN; UPDATE once_operations SET waited = false WHERE id = (SELECT id FROM once_operations ORDER BY id LIMIT "
      "1)");
  std::optional<Result<std::string>> applied;
  std::jthread upgrade([&] { applied = postgres::apply_schema(database.url(), ServerSettings()); });
  sql.wait_for(
      "EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX CONCURRENTLY%' AND wait_event_type "
      "= 'Lock' AND datname = current_database())");
  EXPECT_TRUE(load.goes_on()) << "nobody waits for the upgrade, though it waits for a transaction";
  slow("COMMIT");
  upgrade.join();
  ASSERT_TRUE(applied->has_value()) << applied->error().detail;
  EXPECT_EQ(**applied, "schema brought from revision 1 to 6");

  {
    const auto store = open(ServerSettings(), database.url());
    OldGateway old(database.url());
    const Started of_old{new_id(), new_nonce()};
    old.work(of_old.id, of_old.nonce);
    EXPECT_EQ(run(*store, op(Verb::lookup, of_old.id, {})).record->state, State::succeeded);
    const Started of_new = started(*store);
    ASSERT_EQ(run(*store, finish_op(of_new.id, of_new.nonce, "new")).status, OpStatus::done);
    EXPECT_EQ(old.outcome(of_new.id), "new");
    EXPECT_TRUE(load.goes_on());
  }
  EXPECT_TRUE(load.goes_on()) << "back to the old ones, on the new schema";
}

// Programs for older revisions look at leases in the rows, so they are renewed there while such programs may run.
TEST_F(PostgresSchema, leases_move_beside_the_rows_when_older_programs_are_retired) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_1());
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings()).has_value());
  const auto store = open(ServerSettings(), database.url());
  const Started it = started(*store);
  const auto in_row = [&] { return sql("SELECT lease_until, waited FROM " + it.row(), 2); };
  const auto renew_and_wait = [&] {
    contract::advance_server_clock(std::chrono::seconds(20));
    ASSERT_EQ(run(*store, op(Verb::renew, it.id, it.nonce)).status, OpStatus::done);
    Op waiting = op(Verb::lookup, it.id, {});
    waiting.waits = Waits::yes;
    ASSERT_EQ(run(*store, waiting).status, OpStatus::done);
  };
  const std::string claimed = in_row();
  renew_and_wait();
  const std::string renewed = in_row();
  EXPECT_NE(renewed, claimed);
  EXPECT_TRUE(renewed.ends_with("|t")) << renewed;
  const Started by_backend = started(*store);
  const std::string lease_of_backend = "SELECT lease_until > statement_timestamp() + '1 h' FROM " + by_backend.row();
  sql("SELECT once_renew('" + by_backend.claim() + "', '2 h')");
  EXPECT_EQ(sql(lease_of_backend), "t");
  EXPECT_EQ(sql("SELECT count(*) FROM once_leases"), "0");
  const OldGateway old(database.url());

  EXPECT_EQ(*postgres::apply_schema(database.url(), ServerSettings(), postgres::OlderPrograms::retired),
            "schema revision 6 was there already; programs for older revisions cannot use it");
  EXPECT_EQ(sql("SELECT version, revision FROM once_schema", 2), "6|6");
  renew_and_wait();
  EXPECT_EQ(in_row(), renewed);
  EXPECT_EQ(sql("SELECT waited, lease_until > statement_timestamp() FROM once_leases", 2), "t|t");
  contract::advance_server_clock(std::chrono::seconds(25));
  EXPECT_EQ(run(*store, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::in_flight);
  contract::advance_server_clock(std::chrono::seconds(10));
  EXPECT_EQ(run(*store, op(Verb::claim, it.id, new_nonce())).verdict, Verdict::execute);
}

TEST_F(PostgresSchema, whoever_may_write_the_operations_may_write_what_is_beside_them) {
  const OwnDatabase database;
  Sql sql(database.url());
  sql(schema_1());
  const std::string role = "gateway_of_" + database.name();
  sql("CREATE ROLE " + role + " LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON once_operations TO " + role +
      "; GRANT SELECT ON once_schema TO " + role);
  ASSERT_TRUE(postgres::apply_schema(database.url(), ServerSettings(), postgres::OlderPrograms::retired).has_value());
  {
    const auto store = open(ServerSettings(), "postgres://" + role + database.url().substr(database.url().find('@')));
    const Started it = started(*store);
    EXPECT_EQ(run(*store, op(Verb::renew, it.id, it.nonce)).status, OpStatus::done);
    EXPECT_EQ(append(*store, it, 0, "head"), OpStatus::done);
    EXPECT_EQ(chunks(*store, it), "head");
    EXPECT_EQ(run(*store, finish_op(it.id, it.nonce)).status, OpStatus::done);
    EXPECT_TRUE(store->sweep(10).has_value());
    EXPECT_EQ(sql("SELECT count(*) FROM once_chunks"), "0");
  }
  sql("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

class PostgresManyKeys : public PostgresSchema {
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

TEST_F(PostgresManyKeys, a_table_that_is_too_large_to_be_read_is_counted_in_a_few_steps) {
  constexpr int rows = 160'000;
  fill(rows);
  const auto store = open(ServerSettings(), database_.url());
  started(*store);  // its lease will be over
  contract::advance_server_clock(std::chrono::minutes(1));
  const Started unknown = started(*store);
  Op end = finish_op(unknown.id, unknown.nonce);
  end.final_state = State::unknown;
  ASSERT_EQ(run(*store, end).status, OpStatus::done);
  started(*store);

  const auto [counts, steps] = schema_upgrade::count_all(*store);
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::started)], 1U);
  EXPECT_EQ(counts[lapsed_at], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::unknown)], 1U);
  EXPECT_NEAR(static_cast<double>(counts[static_cast<std::size_t>(State::succeeded)]), rows, rows / 10.0);
  schema_upgrade::expect_only_unknown(*store, unknown.id);
}

}  // namespace postgres_schema_test
}  // namespace once::store
