#include "base/event.hpp"

#include <chrono>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "base/task.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::base {
namespace event_test {

using namespace std::chrono_literals;

class EventTest : public testing::Test {
 protected:
  Task<void> wait() {
    co_await *event_;
    resumed_ = true;
  }
  Task<void> wait_within(Duration limit) { in_time_ = co_await event_->within(executor_, limit); }
  Task<void> wait_and_destroy() {
    co_await *event_;
    event_.reset();
    resumed_ = true;
  }

  support::ManualClock clock_;
  support::VirtualExecutor executor_{clock_};
  std::unique_ptr<Event> event_ = std::make_unique<Event>();
  bool resumed_ = false;
  std::optional<bool> in_time_;
};

TEST_F(EventTest, wait_ends_when_it_is_set) {
  spawn(wait());
  EXPECT_FALSE(resumed_);
  event_->set();
  EXPECT_TRUE(resumed_);
}

TEST_F(EventTest, wait_for_a_set_event_ends_at_once) {
  event_->set();
  spawn(wait());
  EXPECT_TRUE(resumed_);
}

TEST_F(EventTest, a_cleared_event_is_waited_for_again) {
  event_->set();
  event_->clear();
  spawn(wait());
  EXPECT_FALSE(resumed_);
  event_->set();
  EXPECT_TRUE(resumed_);
}

TEST_F(EventTest, the_coroutine_may_destroy_the_event) {
  spawn(wait_and_destroy());
  event_->set();
  EXPECT_TRUE(resumed_);
  EXPECT_EQ(event_, nullptr);
}

TEST_F(EventTest, set_in_time) {
  spawn(wait_within(10ms));
  executor_.advance(9ms);
  event_->set();
  EXPECT_EQ(in_time_, true);
  executor_.advance(1h);  // its timer fires no more
}

TEST_F(EventTest, not_set_in_time) {
  spawn(wait_within(10ms));
  executor_.advance(10ms);
  EXPECT_EQ(in_time_, false);
  event_->set();  // nothing waits any more
}

TEST_F(EventTest, no_time_to_wait) {
  spawn(wait_within(0ms));
  EXPECT_EQ(in_time_, false);
  in_time_.reset();
  event_->set();
  spawn(wait_within(0ms));
  EXPECT_EQ(in_time_, true);
}

}  // namespace event_test
}  // namespace once::base
