#include "base/clock.hpp"

namespace once::base {

Time SystemClock::now() const {
  return std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now());
}

Duration SystemClock::running() const {
  return std::chrono::duration_cast<Duration>(monotonic_now());
}

std::chrono::nanoseconds monotonic_now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace once::base
