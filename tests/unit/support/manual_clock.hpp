// A clock that stands still until it is told otherwise. Any thread may ask it.
#pragma once

#include <atomic>

#include "base/clock.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::support {

class ManualClock final : public Clock {
 public:
  Time now() const override { return Time(Duration(now_.load())); }
  void set(Time now) { now_.store(now.time_since_epoch().count()); }
  Duration running() const override { return Duration(now_.load() - jumped_.load()); }
  void advance(Duration by) { now_.fetch_add(by.count()); }
  // No time has passed.
  void jump(Duration by) {
    now_.fetch_add(by.count());
    jumped_.fetch_add(by.count());
  }

 private:
  std::atomic<Duration::rep> now_{1'767'225'600'000};
  std::atomic<Duration::rep> jumped_{0};
};

}  // namespace once::support
