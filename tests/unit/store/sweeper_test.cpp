#include "store/server/sweeper.hpp"

#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "tests/unit/support/manual_clock.hpp"

namespace once::store {
namespace sweeper_test {

using namespace std::chrono_literals;

class SweptStore final : public ServerStore {
 public:
  void execute_until(std::chrono::nanoseconds /*until*/, std::span<Op* const> /*batch*/) override {}
  Duration time_limit() const override { return 1s; }
  Traits traits() const override { return {}; }

  Result<Swept> sweep(std::size_t limit) override {
    const std::scoped_lock lock(mutex_);
    ++sweeps_;
    changed_.notify_all();
    if (failing_) {
      return std::unexpected(Error{.source = ErrorSource::store, .retryable = Retryable::yes, .detail = "down"});
    }
    const std::size_t removed = std::min(limit, expired_);
    expired_ -= removed;
    return Swept{.removed = removed, .more = expired_ > 0 ? More::yes : More::no};
  }

  void wait_for(auto&& condition) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 30s, [&] { return condition(*this); }));
  }

  std::size_t expired_ = 0;
  std::size_t sweeps_ = 0;
  bool failing_ = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class SweeperTest : public testing::Test {
 protected:
  ManualClock clock_;
  Log log_{clock_, -1, LogLevel::off, LogFormat::json};
  SweptStore store_;
};

TEST_F(SweeperTest, goes_on_in_small_batches_until_nothing_expired_is_left) {
  store_.expired_ = 25;
  const Sweeper sweeper(store_, {.sweep_every = 1ms, .sweep_batch = 10}, log_);
  store_.wait_for([](const SweptStore& store) { return store.expired_ == 0; });
  EXPECT_GE(store_.sweeps_, 3U);
}

// One batch in every turn would take longer than anybody waits.
TEST_F(SweeperTest, a_backlog_does_not_wait_for_the_next_turn) {
  store_.expired_ = 250;
  const Sweeper sweeper(store_, {.sweep_every = 1500ms, .sweep_batch = 10}, log_);
  store_.wait_for([](const SweptStore& store) { return store.expired_ == 0; });
}

TEST_F(SweeperTest, a_store_that_fails_is_asked_again_later) {
  store_.failing_ = true;
  const Sweeper sweeper(store_, {.sweep_every = 1ms, .sweep_batch = 10}, log_);
  store_.wait_for([](const SweptStore& store) { return store.sweeps_ >= 3; });
}

TEST_F(SweeperTest, ends_at_once_when_its_next_turn_is_far_off) {
  {
    const Sweeper sweeper(store_, {.sweep_every = 24h}, log_);
  }
  EXPECT_EQ(store_.sweeps_, 0U);
}

}  // namespace sweeper_test
}  // namespace once::store
