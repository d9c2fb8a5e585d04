// The stories that all SQL servers share, on PostgreSQL.
#include <fstream>
#include <iterator>

#include "tests/store/postgres_support.hpp"
#include "tests/store/sql/chunks.hpp"
#include "tests/store/sql/functions.hpp"
#include "tests/store/sql/held_claims.hpp"
#include "tests/store/sql/races.hpp"
#include "tests/store/sql/sweeps.hpp"
#include "tests/store/sql/upgrades.hpp"
#include "tests/store/sql/workers.hpp"

namespace once::sql_test {
namespace postgres_sql_test {

using store::Sql;

class PostgresSession final : public SqlSession {
 public:
  explicit PostgresSession(const std::string& url) : sql_(url) {}
  std::string operator()(const std::string& text) override {
    const auto rows = sql_.try_to(text);
    if (!rows) return "error " + rows.error().sqlstate;
    if (rows->size() == 0) return "done";
    std::string all;
    for (std::size_t row = 0; row < rows->size(); ++row) {
      if (row > 0) all += '\n';
      all += rows->bytes(row, 0);
    }
    return all;
  }

 private:
  Sql sql_;
};

class PostgresServer final : public SqlServer {
 public:
  PostgresServer() { store::apply_schema_at(contract::server_url()); }

  std::string_view name() const override { return "postgres"; }
  std::unique_ptr<ServerStore> open(const ServerSettings& settings) override {
    return opened(contract::server_url(), settings);
  }
  std::unique_ptr<SqlSession> connect() override { return connect_to(contract::server_url()); }
  std::vector<std::string> tables() const override { return {"once_operations", "once_leases", "once_chunks"}; }
  bool has_functions() const override { return true; }
  contract::HeldClaims held_claims() const override {
    const std::string url = contract::server_url();
    const std::size_t port = url.rfind(':') + 1;
    const std::size_t database = url.find('/', port);
    return {.server = static_cast<std::uint16_t>(*parse_number(std::string_view(url).substr(port, database - port))),
            .claims = "once_claim",
            .open = [url, port, database](std::uint16_t relay, const ServerSettings& settings) {
              return opened(url.substr(0, port) + std::to_string(relay) + url.substr(database), settings);
            }};
  }

  std::string bytes(std::string_view bytes) const override { return "'\\x" + to_hex(bytes) + "'::bytea"; }
  std::string text(std::string_view text) const override { return fmt::format("'{}'", text); }
  std::string seconds(std::string_view number) const override { return fmt::format("'{} s'", number); }
  std::string call(std::string_view function, std::string_view arguments) const override {
    return fmt::format("SELECT 'done' FROM {}({})", function, arguments);
  }
  std::string claim(std::string_view arguments) const override {
    return fmt::format(
        "SELECT concat_ws('|', verdict, coalesce(claim, 'null'), attempt, fence, coalesce(status::text, 'null'), "
        "coalesce(headers::text, 'null'), coalesce(convert_from(body, 'UTF8'), 'null')) FROM once_claim({})",
        arguments);
  }
  std::string sweep(int limit) const override { return fmt::format("SELECT once_sweep({})", limit); }
  std::string insert_chunk(const Owner& owner, int number, std::string_view bytes_of_it) const override {
    return fmt::format("INSERT INTO once_chunks (id, nonce, number, bytes) VALUES ({}, {}, {}, {})",
                       bytes(owner.id.view()), bytes(owner.nonce.view()), number, bytes(bytes_of_it));
  }
  std::string extend_lease(const Owner& owner) const override {
    return "UPDATE once_operations SET lease_until = statement_timestamp() + interval '1 minute' WHERE id = " +
           bytes(owner.id.view());
  }
  std::string sessions_that_wait() const override {
    return "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
  }
  std::size_t most_bytes_of_a_statement() override { return std::size_t{16} << 20U; }

  std::string not_current() const override { return "error ON001"; }
  std::string not_valid() const override { return "error ON002"; }
  std::string finished_before() const override { return "error ON001"; }
  bool is_in_order() const override { return true; }

  std::uint64_t revision() const override { return postgres::schema_revision; }
  std::string new_database(const std::string& name) override {
    const auto session = connect();
    (*session)("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)");
    EXPECT_EQ((*session)("CREATE DATABASE " + name), "done");
    const std::string url = contract::server_url();
    return url.substr(0, url.rfind('/') + 1) + name;
  }
  std::unique_ptr<SqlSession> connect_to(const std::string& url) override {
    return std::make_unique<PostgresSession>(url);
  }
  Result<std::unique_ptr<ServerStore>> open_at(const std::string& url) override {
    return PostgresStore::open(url, ServerSettings(), store::quiet_log());
  }
  Result<std::string> apply(const std::string& url) override { return postgres::apply_schema(url, ServerSettings()); }
  void make_previous_schema(const std::string& url) override {
    std::ifstream file(ONCE_SCHEMAS "/schema_5/postgres.sql");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(text.empty());
    EXPECT_TRUE(apply(url).has_value());
    Sql sql(url);
    sql(text);
  }
  std::vector<std::string> previous_gateway(const Owner& owner) const override {
    const std::string id = bytes(owner.id.view());
    const std::string mine = fmt::format(" WHERE id = {} AND nonce = {} AND state = 0", id, bytes(owner.nonce.view()));
    return {fmt::format("INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, "
                        "lease_until, expires_at, sweep_at, ttl, tombstone, tenant, route) VALUES ({}, 0, 1, 1, "
                        "'\\x01', {}, now(), now() + '30 s', now() + '1 h', now() + '1 h', '1 h', '0', 'acme', '/') ON "
                        "CONFLICT (id) DO NOTHING",
                        id, bytes(owner.nonce.view())),
            "INSERT INTO once_leases (id, fence, lease_until) SELECT id, fence, now() + '30 s' FROM once_operations" +
                mine + " ON CONFLICT (id) DO UPDATE SET lease_until = EXCLUDED.lease_until",
            "UPDATE once_operations SET waited = false, state = 1, outcome = 'old', expires_at = now() + '1 h'" + mine};
  }
  std::vector<std::string> later_columns_of_once_schema() const override { return {"revision"}; }
  bool upgrades_under_load() const override { return true; }
  std::string upgrades_that_wait() const override {
    return "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE once_operations ADD%' AND datname = "
           "'once_upgraded'";
  }
  // From 256 MiB on. One row a page.
  LargeTable fill(SqlSession& session) override {
    constexpr int rows = 35'000;
    EXPECT_EQ(session("ALTER TABLE once_operations SET (fillfactor = 10)"), "done");
    EXPECT_EQ(session(fmt::format(
                  "INSERT INTO once_operations (id, state, attempt, fence, fingerprint, nonce, started_at, "
                  "lease_until, expires_at, sweep_at, ttl, tenant, route, outcome) SELECT sha256(n::text::bytea), 1, "
                  "1, 1, '\\x01', '\\x01', now(), now(), now() + '1 h', now() + '1 h', '1 h', 'acme', '/', "
                  "convert_to(repeat('x', 1400), 'UTF8') FROM generate_series(1, {}) AS n",
                  rows)),
              "done");
    session("ANALYZE once_operations");
    return {.rows = rows, .tolerance = rows / 10.0, .steps = 4};
  }

 private:
  static std::unique_ptr<ServerStore> opened(const std::string& url, const ServerSettings& settings) {
    auto store = PostgresStore::open(url, settings, store::quiet_log());
    if (!store) throw std::runtime_error(store.error().detail);
    return std::move(*store);
  }
};

}  // namespace postgres_sql_test

TEST_F(SqlRace, of_two_workers_that_claim_a_new_key_one_executes) {
  const Key it = claimed_by_worker();
  EXPECT_EQ(ask("DELETE FROM " + row(it.owner)), "done");
  const auto holder = connect();
  (*holder)("BEGIN; " + claim(it));
  Answers answers;
  {
    std::jthread one([&] { answers[0] = answer_to(claim(it)); });
    std::jthread two([&] { answers[1] = answer_to(claim(it)); });
    wait_for_waiters("2");
    (*holder)("ROLLBACK");
  }
  std::ranges::sort(answers);
  EXPECT_EQ(answers, (Answers{"execute|1", "in_flight|1"}));
}

// Two gateways. What a store cannot lock in time it answers as in flight: then both try once more.
TEST_F(SqlRace, of_two_gateways_that_wait_for_a_failed_key_one_executes) {
  const auto second = server().open({});
  const auto holder = connect();
  for (int tries = 0; tries < 20; ++tries) {
    const Owner owner = claimed();
    done(finish_op(owner, State::failed));
    std::array<Op, 2> claims = {op_of(Verb::claim, other_owner(owner)), op_of(Verb::claim, other_owner(owner))};
    (*holder)("BEGIN; SELECT FROM " + row(owner) + " FOR UPDATE");
    {
      std::jthread one([&] { claims[0] = run(claims[0]); });
      std::jthread two([&] { claims[1] = run_on(*second, claims[1]); });
      const auto until = monotonic_now() + std::chrono::milliseconds(250);
      while (monotonic_now() < until && ask(server().sessions_that_wait()) != "2") {
      }
      (*holder)("COMMIT");
    }
    const auto executing = std::ranges::count(claims, Verdict::execute, &Op::verdict);
    ASSERT_LE(executing, 1);
    if (executing == 1) return;
  }
  FAIL() << "neither got the row in time";
}

std::unique_ptr<SqlServer> sql_server() {
  return std::make_unique<postgres_sql_test::PostgresServer>();
}

}  // namespace once::sql_test
