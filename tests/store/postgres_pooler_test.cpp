// The postgres store behind PgBouncer in transaction mode: the contract, and nothing that stays in the server's
// sessions, which belong to others a moment later.
#include <set>

#include "tests/store/contract.hpp"
#include "tests/store/postgres_support.hpp"

namespace once::store {
namespace postgres_pooler_test {

std::string direct_url() {
  return contract::from_environment("ONCE_TEST_DIRECT");
}

std::unique_ptr<PostgresStore> open_pooled() {
  apply_schema_at(direct_url());
  auto store = PostgresStore::open(contract::server_url(), ServerSettings(), quiet_log());
  if (!store) throw std::runtime_error(store.error().detail);
  return std::move(*store);
}

std::unique_ptr<contract::StoreUnderTest> make() {
  return std::make_unique<contract::ServerUnderTest>([] { return open_pooled(); });
}

Op claim_of(const OperationId& id) {
  return {.verb = Verb::claim, .id = id, .nonce = SystemRandom().nonce(), .terms = {.lease = std::chrono::seconds(30)}};
}

TEST(PostgresPooler, nothing_stays_in_the_sessions_of_others) {
  const auto store = open_pooled();
  store->notify_of_ends([](const OperationId&) {});
  SystemRandom random;
  for (int i = 0; i < 20; ++i) {
    OperationId id;
    random.fill(id.bytes);
    Op claim = claim_of(id);
    Op* const batch = &claim;
    store->execute({&batch, 1});
    ASSERT_EQ(claim.verdict, Verdict::execute) << claim.error;
  }
  ASSERT_TRUE(store->sweep(10).has_value());
  ASSERT_TRUE(store->count("").has_value());
  // All sessions of the pool at once.
  std::vector<std::unique_ptr<Sql>> clients;
  std::set<std::string> sessions;
  for (int i = 0; i < 4; ++i) {
    Sql& client = *clients.emplace_back(std::make_unique<Sql>());
    client("BEGIN");
    sessions.insert(client("SELECT pg_backend_pid()"));
    EXPECT_EQ(client("SELECT current_setting('statement_timeout'), current_setting('lock_timeout'), "
                     "current_setting('enable_seqscan'), current_setting('plan_cache_mode')",
                     4),
              "0|0|on|auto");
    EXPECT_EQ(client("SELECT count(*) FROM pg_prepared_statements"), "0");
    EXPECT_EQ(client("SELECT count(*) FROM pg_listening_channels()"), "0");
    EXPECT_EQ(client("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
  }
  EXPECT_EQ(sessions.size(), 4U);
}

TEST(PostgresPooler, the_schema_is_applied_at_the_server_itself) {
  const auto applied = postgres::apply_schema(contract::server_url(), ServerSettings());
  ASSERT_FALSE(applied.has_value());
  EXPECT_NE(applied.error().detail.find("pooler"), std::string::npos) << applied.error().detail;
}

TEST(PostgresPooler, a_database_with_another_isolation_level_is_refused) {
  apply_schema_at(direct_url());
  Sql direct(direct_url());
  direct("CREATE ROLE strict LOGIN SUPERUSER");
  direct("ALTER ROLE strict SET default_transaction_isolation = 'serializable'");
  const std::string url = contract::server_url();
  const auto opened =
      PostgresStore::open("postgres://strict" + url.substr(url.find('@')), ServerSettings(), quiet_log());
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().detail.find("default_transaction_isolation"), std::string::npos) << opened.error().detail;
}

}  // namespace postgres_pooler_test

}  // namespace once::store

namespace once::contract {
INSTANTIATE_TEST_SUITE_P(Pooler, StoreContract, testing::Values(StoreFactory{"pgbouncer", postgres_pooler_test::make}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Pooler, LapsingStoreContract,
                         testing::Values(StoreFactory{"pgbouncer", postgres_pooler_test::make}), name_of);
}  // namespace once::contract
