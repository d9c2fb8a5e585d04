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

namespace once::store {

namespace {

// Claims that are held outside of the process do not end with it.
class JournalRestart : public testing::TestWithParam<std::size_t> {
 protected:
  Op run(Op op) {
    op.terms.owner = Owner::outside;
    Op* const batch = &op;
    journal_.store().execute({&batch, 1});
    return op;
  }
  Op claim(const Nonce& by, OnUnknown on_unknown = OnUnknown::retry) {
    return run(
        {.verb = Verb::claim, .id = id, .nonce = by, .terms = {.on_unknown = on_unknown, .lease = lease, .ttl = ttl}});
  }
  void restart(Duration down = Duration::zero()) { journal_.restart(down); }

  static constexpr Duration lease = std::chrono::minutes(2);
  static constexpr Duration ttl = std::chrono::minutes(10);
  static constexpr OperationId id{{1}};
  static constexpr Nonce nonce{{1}};
  static constexpr Nonce other{{2}};
  JournalUnderTest journal_{{.segment_bytes = 64 << 10, .cache_bytes = GetParam()}};
};

TEST_P(JournalRestart, a_claim_held_outside_stands_and_may_be_renewed_and_ended) {
  const Op before = claim(nonce);
  ASSERT_EXECUTES(before);
  restart();
  EXPECT_EQ(claim(other).verdict, Verdict::in_flight);
  const Op same = claim(nonce);
  ASSERT_EXECUTES(same);
  EXPECT_EQ(same.record->attempt, Attempt{1});
  EXPECT_EQ(same.record->lease_until, before.record->lease_until);
  EXPECT_EQ(run({.verb = Verb::renew, .id = id, .nonce = nonce, .terms = {.lease = lease}}).status, OpStatus::done);
  EXPECT_EQ(run({.verb = Verb::finish, .id = id, .nonce = nonce}).status, OpStatus::done);
  restart();
  EXPECT_EQ(claim(other).verdict, Verdict::replay);
}

TEST_P(JournalRestart, a_renewal_is_remembered) {
  ASSERT_EXECUTES(claim(nonce));
  journal_.advance(lease - std::chrono::seconds(1));
  ASSERT_EQ(run({.verb = Verb::renew, .id = id, .nonce = nonce, .terms = {.lease = lease}}).status, OpStatus::done);
  restart();
  journal_.advance(lease - std::chrono::seconds(1));
  EXPECT_EQ(claim(other).verdict, Verdict::in_flight);
  journal_.advance(std::chrono::seconds(2));
  EXPECT_EQ(claim(other).verdict, Verdict::execute);
}

TEST_P(JournalRestart, an_owner_that_could_not_renew_in_the_meantime_gets_a_moment) {
  ASSERT_EXECUTES(claim(nonce));
  restart(ttl);
  EXPECT_EQ(claim(other).verdict, Verdict::in_flight);
  journal_.advance(journal::lease_after_restart - std::chrono::seconds(1));
  EXPECT_EQ(run({.verb = Verb::renew, .id = id, .nonce = nonce, .terms = {.lease = lease}}).status, OpStatus::done);
  journal_.advance(lease - std::chrono::seconds(1));
  EXPECT_EQ(claim(other).verdict, Verdict::in_flight);
}

TEST_P(JournalRestart, a_dead_owner_does_not_get_more_than_that) {
  ASSERT_EXECUTES(claim(nonce));
  restart(lease);
  journal_.advance(journal::lease_after_restart + std::chrono::seconds(1));
  EXPECT_EQ(claim(other, OnUnknown::hold).verdict, Verdict::held);
  EXPECT_EQ(claim(other).verdict, Verdict::execute);
}

INSTANTIATE_TEST_SUITE_P(Journal, JournalRestart, testing::Values(0, 1 << 20),
                         [](const auto& info) { return info.param == 0 ? "read_back" : "cached"; });

}  // namespace

}  // namespace once::store
