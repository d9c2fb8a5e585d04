// The postgres store against the contract, on a real server.
#include "store/postgres/postgres_store.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "tests/store/contract.hpp"
#include "tests/store/postgres_support.hpp"
#include "tests/store/server_under_test.hpp"

namespace once::store {
namespace {

std::unique_ptr<contract::StoreUnderTest> make() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::warn, LogFormat::text);
  apply_schema_at(contract::server_url());
  return std::make_unique<contract::ServerUnderTest>([] {
    auto store = PostgresStore::open(contract::server_url(), ServerSettings(), log);
    if (!store) throw std::runtime_error(store.error().detail);
    return std::move(*store);
  });
}

}  // namespace

}  // namespace once::store

namespace once::contract {
INSTANTIATE_TEST_SUITE_P(Server, StoreContract, testing::Values(StoreFactory{"postgres", make}), name_of);
INSTANTIATE_TEST_SUITE_P(Server, LapsingStoreContract, testing::Values(StoreFactory{"postgres", make}), name_of);
}  // namespace once::contract
