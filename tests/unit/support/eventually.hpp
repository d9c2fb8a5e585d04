// Waits for a thing that another thread does, with a deadline.
#pragma once

#include <thread>

#include "base/clock.hpp"
#include "tests/unit/support/layers.hpp"

namespace once::support {

// False: it did not happen in time.
template <class Condition>
bool eventually(const Condition& happened) {
  const auto until = monotonic_now() + std::chrono::seconds(20);
  while (!happened()) {
    if (monotonic_now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace once::support
