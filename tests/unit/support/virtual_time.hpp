// Time that a test moves by hand, and an executor that lives in it: nothing waits, and what is due runs in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/executor.hpp"
#include "core/decision.hpp"
#include "tests/unit/support/manual_clock.hpp"

namespace once::support {

// One thread. Work runs in the order posted, timers in the order due, and the clock moves with them.
class VirtualExecutor final : public Executor {
 public:
  explicit VirtualExecutor(ManualClock& clock) : clock_(clock) {}

  void post(Work& work) override { work_.push_back(&work); }

  void arm(Timer& timer, Duration after) override {
    disarm(timer);
    timer.due = saturating_add(clock_.now(), after).time_since_epoch().count();
    timer.previous = timer.next = &timer;
    timers_.emplace(timer.due, &timer);
  }

  void disarm(Timer& timer) override {
    if (!timer.armed()) return;
    const auto [first, last] = timers_.equal_range(timer.due);
    for (auto at = first; at != last; ++at) {
      if (at->second != &timer) continue;
      timers_.erase(at);
      timer.previous = timer.next = nullptr;
      return;
    }
    ONCE_ASSERT(false);  // armed elsewhere
  }

  void run_ready() {
    while (!work_.empty()) {
      Work& work = *work_.front();
      work_.pop_front();
      work.run(work);
    }
  }

  void advance(Duration by) {
    const Time until = clock_.now() + by;
    run_ready();
    while (!timers_.empty() && timers_.begin()->first <= until.time_since_epoch().count()) fire_next();
    clock_.set(until);
  }

  // Moves on from timer to timer until the thing has happened; false if nothing is left to do, or not by then.
  bool run_until(auto&& happened, Duration limit = std::chrono::hours(1)) {
    const Time deadline = saturating_add(clock_.now(), limit);
    run_ready();
    while (!happened()) {
      if (timers_.empty() || Time(Duration(timers_.begin()->first)) > deadline) return false;
      fire_next();
    }
    return true;
  }

  void run_to_the_end() {
    run_until([] { return false; }, Duration::max());
  }

  bool idle() const { return work_.empty() && timers_.empty(); }

 private:
  void fire_next() {
    Timer& timer = *timers_.begin()->second;
    clock_.set(std::max(clock_.now(), Time(Duration(timer.due))));
    disarm(timer);
    timer.fire(timer);
    run_ready();
  }

  ManualClock& clock_;
  std::deque<Work*> work_;
  std::multimap<std::int64_t, Timer*> timers_;
};

}  // namespace once::support
