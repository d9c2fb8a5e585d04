// Pauses between retries: each is twice as long as the one before, up to the longest.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace once::base {

class Backoff {
 public:
  constexpr Backoff(Duration first, Duration longest) : first_(first), longest_(longest), pause_(first) {}

  constexpr Duration next() { return next(longest_); }
  // For callers whose longest pause depends on what the last try said.
  constexpr Duration next(Duration longest) {
    const Duration pause = std::min(pause_, longest);
    pause_ = pause > Duration::max() / 2 ? pause : pause * 2;
    return pause;
  }
  // What next() returns, without a step.
  constexpr Duration peek() const { return std::min(pause_, longest_); }
  constexpr void reset() { pause_ = first_; }

 private:
  Duration first_;
  Duration longest_;
  Duration pause_;
};

}  // namespace once::base
