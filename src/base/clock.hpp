// Time as a port. No other file asks the system for the time.
#pragma once

#include <chrono>

#include "base/layers.hpp"

namespace once::base {

using Duration = std::chrono::milliseconds;
// Wall-clock time, to the millisecond: what is stored in records and shown to people.
using Time = std::chrono::sys_time<Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() const = 0;
  // Time since some fixed moment; unlike now() it never jumps.
  virtual Duration running() const { return now().time_since_epoch(); }
};

class SystemClock final : public Clock {
 public:
  Time now() const override;
  Duration running() const override;
};

// Monotonic time, for measuring and for deadlines.
std::chrono::nanoseconds monotonic_now();

}  // namespace once::base
