// The time by which the journal deletes. It is the clock's time, unless the clock has advanced more than time has
// passed: then the clock may be wrong, and records that seem expired may be needed once it is corrected. A deletion
// cannot be undone. So only elapsed time counts from then on, until the clock has stayed ahead for a while. A machine
// that was off for days looks the same; its files are only kept a little longer.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.hpp"

namespace once::journal {

class DeletionTime {
 public:
  // How long the process must run before a clock that jumped ahead is trusted.
  static constexpr Duration grace = std::chrono::minutes(15);
  // Smaller differences are not a jump.
  static constexpr Duration tolerance = std::chrono::minutes(1);

  // `newest` is the time of the newest entry in the journal; `running` is Clock::running().
  DeletionTime(Time newest, Duration running) : time_(newest), running_(running) {}

  Time at(Time now, Duration running) {
    const Time expected = time_ + (running - running_);
    running_ = running;
    if (now > expected + tolerance) {
      if (!ahead_since_) ahead_since_ = running;
      if (running - *ahead_since_ < grace) return time_ = expected;
    }
    ahead_since_.reset();
    return time_ = now;
  }

  // Whether the clock is ahead and not trusted yet.
  bool waits() const { return ahead_since_.has_value(); }

 private:
  Time time_;
  Duration running_;
  std::optional<Duration> ahead_since_;
};

}  // namespace once::journal
