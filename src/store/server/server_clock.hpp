// An estimate of a server's clock from its answers, used to give claims a deadline by that clock. The server refuses a
// claim that the network delivers after its deadline, because its caller has given up. If the server's clock was set
// forward meanwhile, a valid claim is refused as well; the refusal contains the time, and the claim is sent again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.hpp"

namespace once::store {

// Thread-safe.
class ServerClock {
 public:
  // Reports that the clock showed `at` when the server executed a request sent at `sent` (monotonic_now()).
  void learn(Time at, std::chrono::nanoseconds sent) {
    const Duration rounded_up = at.time_since_epoch() + Duration(1);
    ahead_.store((rounded_up - std::chrono::floor<Duration>(sent)).count(), std::memory_order_relaxed);
  }
  // The latest time that the clock can show at this moment (of monotonic_now()). Time(): unknown.
  Time latest_at(std::chrono::nanoseconds moment) const {
    const std::int64_t ahead = ahead_.load(std::memory_order_relaxed);
    return ahead == unknown ? Time() : Time(Duration(ahead) + std::chrono::ceil<Duration>(moment));
  }

 private:
  static constexpr std::int64_t unknown = INT64_MIN;
  std::atomic<std::int64_t> ahead_{unknown};  // relative to monotonic_now(), in milliseconds
};

}  // namespace once::store
