// Timers by the tick: never early, late by one tick at most, whatever else is armed, fired or disarmed meanwhile.
#include "http/timer_wheel.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <ranges>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::http::timer_wheel_test {

using namespace std::chrono_literals;

struct TestTimer : Timer {
  TestTimer() {
    fire = [](Timer& timer) {
      auto& self = static_cast<TestTimer&>(timer);
      if (self.when_fired) self.when_fired();
    };
  }
  std::function<void()> when_fired;
};

class TimerWheelTest : public testing::Test {
 protected:
  // Writes down what fires, by number.
  TestTimer& timer(int number) {
    TestTimer& found = timers[number];
    if (!found.when_fired) found.when_fired = [this, number] { fired.push_back(number); };
    return found;
  }

  TimerWheel wheel;
  std::map<int, TestTimer> timers;
  std::vector<int> fired;
};

// Armed within a tick of which up to all may be over: one more than the ticks asked for.
TEST_F(TimerWheelTest, never_early_and_late_by_one_tick_at_most) {
  const std::int64_t start = 5000;
  wheel.advance(start);
  for (int milliseconds = 0; milliseconds <= 45; ++milliseconds) {
    TimerWheel fresh;
    fresh.advance(start);
    fired.clear();
    TestTimer& one = timer(milliseconds);
    fresh.arm(one, start, Duration(milliseconds));
    const std::int64_t due = start + (milliseconds + 9) / 10 + 1;
    fresh.advance(due - 1);
    EXPECT_TRUE(fired.empty()) << milliseconds;
    EXPECT_TRUE(one.armed());
    fresh.advance(due);
    EXPECT_EQ(fired, std::vector{milliseconds});
    EXPECT_FALSE(one.armed());
    fresh.advance(due + 5000);
    EXPECT_EQ(fired.size(), 1U);
  }
}

TEST_F(TimerWheelTest, those_due_earlier_fire_earlier_and_equals_in_the_order_armed) {
  wheel.arm(timer(3), 0, 30ms);
  wheel.arm(timer(1), 0, 10ms);
  wheel.arm(timer(4), 0, 30ms);
  wheel.arm(timer(2), 0, 20ms);
  wheel.advance(100);
  EXPECT_EQ(fired, (std::vector{1, 2, 3, 4}));
}

TEST_F(TimerWheelTest, a_timer_may_arm_itself_again_when_it_fires) {
  int rounds = 0;
  TestTimer again;
  std::int64_t now = 0;
  again.when_fired = [&] {
    ++rounds;
    wheel.arm(again, now, 0ms);
  };
  wheel.arm(again, 0, 0ms);
  for (now = 1; now <= 20; ++now) wheel.advance(now);
  EXPECT_EQ(rounds, 20);  // once a tick, never twice in one
  wheel.disarm(again);
}

TEST_F(TimerWheelTest, a_timer_may_disarm_others_that_are_due_with_it) {
  TestTimer first;
  first.when_fired = [&] {
    fired.push_back(0);
    wheel.disarm(timer(1));
    wheel.disarm(timer(2));
    timers.erase(1);  // gone, and not touched any more
  };
  wheel.arm(first, 0, 10ms);
  wheel.arm(timer(1), 0, 10ms);
  wheel.arm(timer(2), 0, 20ms);
  wheel.arm(timer(3), 0, 10ms);
  wheel.advance(100);
  EXPECT_EQ(fired, (std::vector{0, 3}));
}

TEST_F(TimerWheelTest, a_timer_many_turns_away_is_passed_over_until_it_is_due) {
  wheel.arm(timer(1), 0, 24h);
  wheel.arm(timer(2), 0, 24h + 10ms);
  const std::int64_t due = 24h / TimerWheel::tick + 1;
  for (std::int64_t now = 0; now < due; now += 700) wheel.advance(now);
  wheel.advance(due - 1);
  EXPECT_TRUE(fired.empty());
  wheel.advance(due);
  EXPECT_EQ(fired, std::vector{1});
  wheel.advance(due + 1);
  EXPECT_EQ(fired, (std::vector{1, 2}));
}

TEST_F(TimerWheelTest, a_long_sleep_of_the_loop_misses_nobody) {
  for (int i = 0; i < 3000; ++i) wheel.arm(timer(i), 0, Duration(i * 10));
  wheel.advance(100'000);
  EXPECT_EQ(fired.size(), 3000U);
}

TEST_F(TimerWheelTest, the_loop_is_told_how_long_it_may_sleep) {
  EXPECT_EQ(wheel.ticks_to_next(0), std::nullopt);
  wheel.arm(timer(1), 0, 50ms);
  EXPECT_EQ(wheel.ticks_to_next(0), 6);
  wheel.advance(4);
  EXPECT_EQ(wheel.ticks_to_next(4), 2);
  wheel.arm(timer(2), 4, 0ms);
  EXPECT_EQ(wheel.ticks_to_next(4), 1);
  wheel.advance(6);
  EXPECT_EQ(wheel.ticks_to_next(6), std::nullopt);
}

// The wheel against a list of due times, with timers that change others as they fire.
class Model {
 public:
  static constexpr std::size_t count = 12;

  explicit Model(std::int64_t start) : now_(start) {
    wheel_.advance(now_);
    for (std::size_t i = 0; i < count; ++i) timers_[i].when_fired = [this, i] { on_fire(i); };
  }
  ~Model() {
    for (TestTimer& timer : timers_) wheel_.disarm(timer);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void change_one() {
    const auto which = *rc::gen::inRange<std::size_t>(0, count);
    if (*rc::gen::inRange(0, 4) == 0) {
      wheel_.disarm(timers_[which]);
      due_.erase(which);
      return;
    }
    const Duration after(*rc::gen::oneOf(rc::gen::inRange(0, 100), rc::gen::inRange(0, 60'000)));
    wheel_.arm(timers_[which], now_, after);
    due_[which] = now_ + (after.count() + 9) / 10 + 1;
  }

  void advance(std::int64_t by) {
    now_ += by;
    wheel_.advance(now_);
    for (const auto& [which, due] : due_) RC_ASSERT(due > now_);
    const auto sleep = wheel_.ticks_to_next(now_);
    if (due_.empty()) return;
    const auto next = std::ranges::min(due_ | std::views::values);
    RC_ASSERT(sleep.has_value());
    RC_ASSERT(*sleep >= 1);
    RC_ASSERT(*sleep <= next - now_);
  }

  // Sleeping as told, every timer fires at its very tick; a look for nothing happens once a turn and stale slot at
  // most.
  void sleep_to_the_end() {
    change_in_fire_ = false;
    int looks = 0;
    while (!due_.empty()) {
      const auto sleep = wheel_.ticks_to_next(now_);
      RC_ASSERT(sleep.has_value());
      exact_ = true;
      advance(*sleep);
      RC_ASSERT(++looks < 2000);
    }
    for (; wheel_.ticks_to_next(now_); advance(*wheel_.ticks_to_next(now_))) RC_ASSERT(++looks < 4000);
  }

 private:
  void on_fire(std::size_t which) {
    RC_ASSERT(due_.contains(which));
    RC_ASSERT(due_[which] <= now_);
    if (exact_) RC_ASSERT(due_[which] == now_);
    due_.erase(which);
    if (change_in_fire_ && *rc::gen::arbitrary<bool>()) change_one();
  }

  TimerWheel wheel_;
  std::array<TestTimer, count> timers_;
  std::map<std::size_t, std::int64_t> due_;
  std::int64_t now_;
  bool change_in_fire_ = true;
  bool exact_ = false;
};

RC_GTEST_PROP(TimerWheelProperty, behaves_as_a_list_of_due_times, ()) {
  Model model(*rc::gen::inRange<std::int64_t>(0, 1'000'000));
  for (int steps = *rc::gen::inRange(0, 100); steps > 0; --steps) {
    if (*rc::gen::inRange(0, 3) > 0) {
      model.change_one();
    } else {
      model.advance(*rc::gen::oneOf(rc::gen::inRange(0, 5), rc::gen::inRange(0, 3000)));
    }
  }
  model.sleep_to_the_end();
}

}  // namespace once::http::timer_wheel_test
