// The memory store against the contract.
#include "store/memory/memory_store.hpp"
#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::store {
namespace {

class MemoryUnderTest final : public contract::StoreUnderTest {
 public:
  explicit MemoryUnderTest(Shared shared) : store_(clock_, {.shared = shared}) {}
  Store& store() override { return store_; }
  void advance(Duration by) override { clock_.advance(by); }

 private:
  ManualClock clock_;
  MemoryStore store_;
};

contract::StoreFactory memory_factory(std::string name, Shared shared) {
  return {std::move(name), [shared] { return std::make_unique<MemoryUnderTest>(shared); }};
}

}  // namespace

}  // namespace once::store

namespace once::contract {
INSTANTIATE_TEST_SUITE_P(Memory, StoreContract,
                         testing::Values(memory_factory("alone", Shared::no), memory_factory("shared", Shared::yes)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Memory, LapsingStoreContract, testing::Values(memory_factory("shared", Shared::yes)), name_of);
}  // namespace once::contract
