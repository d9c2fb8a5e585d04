// The mysql store against the contract, on a real server.
#include "store/mysql/mysql_store.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "store/mysql/schema.hpp"
#include "tests/store/contract.hpp"
#include "tests/store/server_under_test.hpp"

namespace once::store {
namespace {

std::unique_ptr<contract::StoreUnderTest> make() {
  static const SystemClock clock;
  static const Log log(clock, STDERR_FILENO, LogLevel::warn, LogFormat::text);
  static const auto applied = mysql::apply_schema(contract::server_url(), ServerSettings());
  if (!applied) throw std::runtime_error(applied.error().detail);
  return std::make_unique<contract::ServerUnderTest>([] {
    auto store = MysqlStore::open(contract::server_url(), ServerSettings(), log);
    if (!store) throw std::runtime_error(store.error().detail);
    return std::move(*store);
  });
}

}  // namespace

}  // namespace once::store

namespace once::contract {
INSTANTIATE_TEST_SUITE_P(Server, StoreContract, testing::Values(StoreFactory{"mysql", make}), name_of);
INSTANTIATE_TEST_SUITE_P(Server, LapsingStoreContract, testing::Values(StoreFactory{"mysql", make}), name_of);
}  // namespace once::contract
