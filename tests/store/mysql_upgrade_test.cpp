// The schema of MySQL and MariaDB over its revisions: programs of two versions beside each other, and one brought up to
// date under load. And what operators ask for, in a table that is too large to be read.
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "store/mysql/statements.hpp"
#include "tests/store/mysql_fixture.hpp"
#include "tests/store/schema_upgrade.hpp"

namespace once::mysql_test {
namespace mysql_upgrade_test {

// What a gateway of revision 1 does to its own operations, in its own words.
class OldGateway {
 public:
  explicit OldGateway(const std::string& url) : session_(url) {
    EXPECT_EQ(session_.value("SELECT version FROM once_schema"), "1") << "or it would not start";
  }

  void work(const OperationId& id, const Nonce& nonce) {
    const std::string mine = fmt::format(" WHERE id = 0x{} AND nonce = 0x{} AND state = 0", to_hex(id), to_hex(nonce));
    const std::string now = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000";
    EXPECT_EQ(
        session_.run(fmt::format(
            "INSERT INTO once_operations (id, state, body_kept, attempt, fence, fingerprint, nonce, started_at, "
            "lease_until, expires_at, ttl, tombstone, previous_state, previous_started_at, outcome, sweep_at, tenant, "
            "route) VALUES (0x{0}, 0, 1, 1, 1, 0x{0}, 0x{1}, {2}, {2} + 30000, {2} + 3600000, 3600000, 0, 3, 0, NULL, "
            "{2} + 3600000, 'acme', '/') ON DUPLICATE KEY UPDATE id = id",
            to_hex(id), to_hex(nonce), now)),
        0U);
    EXPECT_EQ(session_.run("UPDATE once_operations SET lease_until = lease_until + 1000" + mine), 0U);
    EXPECT_EQ(session_.run("UPDATE once_operations SET state = 1, outcome = 'old'" + mine), 0U);
    EXPECT_EQ(outcome(id), "old");
  }
  std::string outcome(const OperationId& id) {
    return session_.value("SELECT outcome FROM once_operations WHERE id = 0x" + to_hex(id));
  }

 private:
  Session session_;
};

class MysqlUpgrade : public MysqlTest {
 protected:
  std::string new_database(const std::string& name) {
    EXPECT_EQ(other().run(fmt::format("DROP DATABASE IF EXISTS {}; CREATE DATABASE {}", name, name)), 0U);
    return url_of(name);
  }
  // With the schema as a program of this revision printed it.
  std::string old_database(const std::string& name, int revision = 1) {
    const std::string url = new_database(name);
    const auto target = mysql::parse_target(url);
    const std::string command =
        fmt::format("mariadb --no-defaults -h{} -P{} -uonce -ponce {} < {}/schema_{}/mysql.sql",
                    target->hosts.front().name, target->hosts.front().port, name, ONCE_SCHEMAS, revision);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return url;
  }
  static std::string why_not_open(const std::string& url) {
    const auto store = MysqlStore::open(url, ServerSettings(), quiet_log());
    return store ? "opened" : store.error().detail;
  }
};

TEST_F(MysqlUpgrade, a_newer_schema_is_used_if_it_says_that_this_program_can) {
  const std::string url = new_database("once_newer");
  ASSERT_TRUE(mysql::apply_schema(url, ServerSettings()).has_value());
  Session session(url);
  ASSERT_EQ(
      session.run("UPDATE once_schema SET revision = 6, version = 5; ALTER TABLE once_operations ADD COLUMN later "
                  "INT NOT NULL DEFAULT 7"),
      0U);
  const auto store = opened(url);
  const Owner owner = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, owner)).verdict, Verdict::execute);
  EXPECT_EQ(run_on(*store, finish_op(owner)).status, OpStatus::done);
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()),
            "schema revision 6 is there, newer than this program's 5, which can use it");
  ASSERT_EQ(session.run("UPDATE once_schema SET version = 6"), 0U);
  EXPECT_NE(why_not_open(url).find("needs a program for revision 6 or newer; this one is for 5"), std::string::npos);
  EXPECT_FALSE(mysql::apply_schema(url, ServerSettings()).has_value());
}

TEST_F(MysqlUpgrade, an_older_schema_says_what_to_run) {
  EXPECT_NE(
      why_not_open(old_database("once_older")).find("has revision 1, this program needs 5: run `once schema mysql"),
      std::string::npos);
}

// Revision 5 has a column more; programs of revision 4 go on.
TEST_F(MysqlUpgrade, the_schema_of_the_revision_before_gets_what_is_new_and_keeps_its_rows) {
  const std::string url = old_database("once_before", 4);
  Session session(url);
  ASSERT_EQ(session.run("CALL once_claim('acme', 'one', '', 30, 60, 'retry', 0)"), 0U);
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()), "schema brought from revision 4 to 5");
  EXPECT_EQ(session.value("SELECT CONCAT_WS(' ', version, revision, procedures) FROM once_schema"), "1 5 5");
  EXPECT_EQ(session.value("SELECT COUNT(*) FROM once_operations"), "1");
  EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
  EXPECT_EQ(session.value("SELECT COUNT(*) FROM once_operations WHERE chunks_fence = 0"), "1");
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()), "schema revision 5 was there already");

  const auto store = opened(url);
  const Owner owner = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, owner)).verdict, Verdict::execute);
  ASSERT_EQ(run_on(*store, append_op(owner, 0, "head")).status, OpStatus::done);
  ASSERT_EQ(run_on(*store, in_chunks(finish_op(owner))).status, OpStatus::done);
  EXPECT_EQ(session.value("SELECT body_kept FROM once_operations " + owner.where()), "0") << "an older one: not kept";
  const auto shown = [&] {
    return session.value("SELECT body_in_chunks FROM once_keys WHERE id = '" + to_hex(owner.id) + "'");
  };
  EXPECT_EQ(shown(), "1");
  EXPECT_EQ(run_on(*store, read_op(owner)).chunks.size(), 1U);
  // As a program of revision 4 executes it again after it has expired, and keeps no body.
  ASSERT_EQ(session.run("UPDATE once_operations SET fence = fence + 1, body_kept = 0, outcome = 'x' " + owner.where()),
            0U);
  EXPECT_EQ(run_on(*store, op_of(Verb::lookup, owner)).record->body_kept, BodyKept::no);
  EXPECT_EQ(shown(), "0");
}

TEST_F(MysqlUpgrade, tables_without_procedures_get_them_later) {
  const std::string url = new_database("once_plain_first");
  EXPECT_EQ(*mysql::apply_schema(url + "?procedures=off", ServerSettings()), "schema revision 5 made");
  Session session(url);
  EXPECT_NE(session.run("CALL once_sweep(10)"), 0U);
  EXPECT_EQ(*mysql::apply_schema(url + "?procedures=off", ServerSettings()), "schema revision 5 was there already");
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()),
            "schema revision 5 was there already; its procedures were made");
  EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
  EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()), "schema revision 5 was there already");
}

// Somebody with more rights brings them up to date later.
TEST_F(MysqlUpgrade, tables_are_brought_up_to_date_without_their_procedures) {
  for (const int revision : {1, 4}) {
    const std::string url = old_database("once_tables_only", revision);
    EXPECT_EQ(
        *mysql::apply_schema(url + "?procedures=off", ServerSettings()),
        fmt::format("schema brought from revision {0} to 5; its procedures are still those of revision {0}, since "
                    "the URL has procedures=off",
                    revision));
    Session session(url);
    EXPECT_EQ(session.run("CALL once_sweep(10)") == 0U, revision == 4);
    EXPECT_EQ(session.run("CALL once_claim('acme', 'one', '', 30, 60, 'retry', 0)"), 0U);
    EXPECT_EQ(*mysql::apply_schema(url, ServerSettings()),
              "schema revision 5 was there already; its procedures were made");
    EXPECT_EQ(session.value("CALL once_sweep(10)"), "0");
  }
}

// Gateways of revision 1, backends and a transaction that stays open, while the schema is brought up to date; then
// gateways of both revisions on it, and back to the old ones.
TEST_F(MysqlUpgrade, two_versions_work_beside_each_other_through_an_upgrade) {
  if (mysql::parse_target(contract::server_url())->hosts.size() > 1) {
    GTEST_SKIP() << "Galera rolls back transactions that are in the way of a new index";
  }
  const std::string url = old_database("once_upgraded");
  const Owner ended = new_owner();
  OldGateway(url).work(ended.id, ended.nonce);
  schema_upgrade::Load load;
  load.add([&] {
    return [gateway = std::make_shared<OldGateway>(url), random = std::make_shared<SystemRandom>()] {
      OperationId id;
      random->fill(id.bytes);
      gateway->work(id, random->nonce());
    };
  });
  load.add([&] {
    return [backend = std::make_shared<Session>(url), random = std::make_shared<SystemRandom>()] {
      EXPECT_EQ(backend->run("CALL once_claim('acme', '" + to_hex(random->nonce()) + "', '', 30, 60, 'retry', 0)"), 0U);
      ASSERT_FALSE(backend->rows().empty());
      const std::string claim = backend->rows().front().at(1).value_or("");
      EXPECT_EQ(backend->run("CALL once_finish('" + claim + "', 200, '{}', 'done')"), 0U);
    };
  });
  ASSERT_TRUE(load.goes_on());
  Session slow(url);
  // Of a row that nobody is at work on.
  ASSERT_EQ(slow.run("BEGIN; SELECT id FROM once_operations " + ended.where() + " FOR UPDATE"), 0U);
  std::optional<Result<std::string>> applied;
  std::jthread upgrade([&] { applied = mysql::apply_schema(url, ServerSettings()); });
  const auto until = monotonic_now() + std::chrono::minutes(1);
  while (
      other().value("SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for table metadata "
                    "lock%' AND info LIKE 'ALTER TABLE once_operations%'") == "0" &&
      monotonic_now() < until) {
  }
  EXPECT_TRUE(load.goes_on()) << "nobody waits for long, though the upgrade waits for a transaction";
  ASSERT_EQ(slow.run("COMMIT"), 0U);
  upgrade.join();
  ASSERT_TRUE(applied->has_value()) << applied->error().detail;
  EXPECT_EQ(**applied, "schema brought from revision 1 to 5");
  {
    const auto store = opened(url);
    OldGateway old(url);
    const Owner of_old = new_owner();
    old.work(of_old.id, of_old.nonce);
    EXPECT_EQ(run_on(*store, op_of(Verb::lookup, of_old)).record->state, State::succeeded);
    const Owner of_new = new_owner();
    ASSERT_EQ(run_on(*store, op_of(Verb::claim, of_new)).verdict, Verdict::execute);
    ASSERT_EQ(run_on(*store, finish_op(of_new, "new")).status, OpStatus::done);
    EXPECT_EQ(old.outcome(of_new.id), "new");
    EXPECT_TRUE(load.goes_on());
  }
  EXPECT_TRUE(load.goes_on()) << "back to the old ones, on the new schema";
}

TEST_F(MysqlUpgrade, what_waits_for_somebody_is_found_by_an_index_on_the_state) {
  for (const State state : {State::started, State::failed, State::unknown}) {
    mysql::Script page;
    page.see_state_page(state, {.started_at = 1, .id = std::string(32, 'x')}, 500);
    mysql::Script count;
    count.count_state_page(Time(), state, {}, 500);
    for (const mysql::Script& script : {page, count}) {
      ASSERT_EQ(other().run("EXPLAIN " + script.text()), 0U);
      const Cells& row = other().rows().back();
      EXPECT_EQ(row.at(5), "once_operations_state");
      EXPECT_NE(row.at(3), "ALL");
      EXPECT_EQ(row.back().value_or("").find("filesort"), std::string::npos) << row.back().value_or("");
    }
  }
}

TEST_F(MysqlUpgrade, a_table_that_is_too_large_to_be_read_is_counted_in_a_few_steps) {
  constexpr int rows = 250'000;
  const std::string url = new_database("once_large");
  ASSERT_TRUE(mysql::apply_schema(url, ServerSettings()).has_value());
  Session session(url);
  for (int made = 0; made < rows; made += 10'000) {
    ASSERT_EQ(
        session.run(fmt::format(
            "INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, lease_until, "
            "expires_at, sweep_at, ttl, outcome) SELECT UNHEX(LPAD(HEX(seq), 64, '0')), 1, 1, 1, UNHEX(SHA2(seq, "
            "256)), UNHEX(MD5(seq)), 1000, 1000, 9223372036854775807, 9223372036854775807, 1, 'x' FROM "
            "seq_{}_to_{}",
            made + 1, made + 10'000)),
        0U);
  }
  ASSERT_EQ(session.run("ANALYZE TABLE once_operations"), 0U);
  const auto store = opened(url);
  const Owner lapsed = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, lapsed)).verdict, Verdict::execute);
  contract::advance_server_clock(std::chrono::minutes(1));
  const Owner unknown = new_owner();
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, unknown)).verdict, Verdict::execute);
  Op end = finish_op(unknown);
  end.final_state = State::unknown;
  ASSERT_EQ(run_on(*store, end).status, OpStatus::done);
  ASSERT_EQ(run_on(*store, op_of(Verb::claim, new_owner())).verdict, Verdict::execute);

  const auto [counts, steps] = schema_upgrade::count_all(*store);
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::started)], 1U);
  EXPECT_EQ(counts[lapsed_at], 1U);
  EXPECT_EQ(counts[static_cast<std::size_t>(State::unknown)], 1U);
  EXPECT_NEAR(static_cast<double>(counts[static_cast<std::size_t>(State::succeeded)]), rows, rows / 4.0);
  schema_upgrade::expect_only_unknown(*store, unknown.id);
}

}  // namespace mysql_upgrade_test
}  // namespace once::mysql_test
