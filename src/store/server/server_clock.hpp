// What is known of a server's clock, from its own answers: enough to say until when a claim counts. A claim that the
// network delivers later is refused by the server, because nobody waits for its answer any more. If the server's clock
// was set forwards meanwhile an honest claim is refused as well; the refusal tells the time, and it is sent again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace once::store {

// Any thread may ask and tell.
class ServerClock {
 public:
  // It showed `at` when the server worked on what was sent at `sent` (monotonic_now()).
  void learn(Time at, std::chrono::nanoseconds sent) {
    const Duration rounded_up = at.time_since_epoch() + Duration(1);
    ahead_.store((rounded_up - std::chrono::floor<Duration>(sent)).count(), std::memory_order_relaxed);
  }
  // The latest that it can show at this moment (of monotonic_now()). Time() while nothing is known.
  Time latest_at(std::chrono::nanoseconds moment) const {
    const std::int64_t ahead = ahead_.load(std::memory_order_relaxed);
    return ahead == unknown ? Time() : Time(Duration(ahead) + std::chrono::ceil<Duration>(moment));
  }

 private:
  static constexpr std::int64_t unknown = INT64_MIN;
  std::atomic<std::int64_t> ahead_{unknown};  // of monotonic_now(), in milliseconds
};

}  // namespace once::store
