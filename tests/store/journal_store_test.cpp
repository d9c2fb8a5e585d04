// The journal against the contract, on the real file system.
#include "store/journal/journal_store.hpp"

#include <filesystem>

#include "base/random.hpp"
#include "store/journal/system_disk.hpp"
#include "tests/store/contract.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::store {
namespace {

class JournalUnderTest final : public contract::StoreUnderTest {
 public:
  explicit JournalUnderTest(const JournalSettings& settings) : settings_(settings) { open(); }
  Store& store() override { return *store_; }
  void advance(Duration by) override {
    clock_.advance(by);
    store_->maintain();
  }
  // The owner is the process: its claims lapse when it ends.
  bool lapse(Duration /*lease*/) override {
    restart(Duration::zero());
    return true;
  }
  void restart(Duration down) {
    store_.reset();
    disk_.reset();
    clock_.advance(down);
    open();
  }

 private:
  void open() {
    disk_ = std::make_unique<SystemDisk>(folder_.path());
    auto opened = JournalStore::open(*disk_, clock_, random_, log_, settings_);
    ASSERT_TRUE(opened.has_value()) << opened.error().detail;
    store_ = std::move(*opened);
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  SystemRandom random_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  JournalSettings settings_;
  std::unique_ptr<SystemDisk> disk_;
  std::unique_ptr<JournalStore> store_;
};

contract::StoreFactory journal_with(std::string name, const JournalSettings& settings) {
  return {std::move(name), [settings] { return std::make_unique<JournalUnderTest>(settings); }};
}

}  // namespace

}  // namespace once::store

namespace once::contract {
const auto journals = testing::Values(journal_with("always", {}), journal_with("interval", {.sync = Sync::interval}),
                                      journal_with("never", {.sync = Sync::never}),
                                      // Everything is read back from segments, and those end all the time.
                                      journal_with("small", {.segment_bytes = 64 << 10, .cache_bytes = 0}));
INSTANTIATE_TEST_SUITE_P(Journal, StoreContract, journals, name_of);
INSTANTIATE_TEST_SUITE_P(Journal, LapsingStoreContract, journals, name_of);
}  // namespace once::contract
