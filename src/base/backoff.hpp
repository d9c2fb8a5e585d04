// Exponential backoff: each pause is twice the one before, up to the longest.
#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace once::base {

class Backoff {
 public:
  constexpr Backoff(Duration first, Duration longest) : first_(first), longest_(longest), pause_(first) {}

  constexpr Duration next() { return next(longest_); }
  // Returns the pause and doubles the next one, for callers whose longest pause varies.
  constexpr Duration next(Duration longest) {
    const Duration pause = std::min(pause_, longest);
    pause_ = pause > Duration::max() / 2 ? pause : pause * 2;
    return pause;
  }
  // The next pause, without doubling it.
  constexpr Duration peek() const { return std::min(pause_, longest_); }
  constexpr void reset() { pause_ = first_; }

 private:
  Duration first_;
  Duration longest_;
  Duration pause_;
};

}  // namespace once::base
