// The time by which the journal deletes. It is the clock's, unless that is further ahead than time has passed: then a
// clock may be wrong, what it calls expired may be needed once it is set right, and a deletion cannot be taken back.
// From then on only time that has passed counts, until the clock has stood by its word for a while. A machine that was
// off for days looks the same, and only keeps its files for that much longer.
#pragma once

#include <algorithm>
#include <optional>

#include "base/clock.hpp"

namespace once::journal {

class DeletionTime {
 public:
  // How long the process runs until a clock that jumped ahead is believed.
  static constexpr Duration grace = std::chrono::minutes(15);
  // A jump that is none.
  static constexpr Duration tolerance = std::chrono::minutes(1);

  // `newest`: of what is in the journal; `running` is Clock::running().
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

  // The clock is ahead and not believed yet.
  bool waits() const { return ahead_since_.has_value(); }

 private:
  Time time_;
  Duration running_;
  std::optional<Duration> ahead_since_;
};

}  // namespace once::journal
