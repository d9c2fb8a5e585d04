// A timer wheel: arming and disarming take constant time. A timer may fire one tick late, never early. A timer that is
// more than one turn of the wheel away stays in its slot and is skipped until it is due.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/executor.hpp"

namespace once::http {

class TimerWheel {
 public:
  static constexpr Duration tick{10};

  TimerWheel();
  TimerWheel(const TimerWheel&) = delete;
  TimerWheel& operator=(const TimerWheel&) = delete;

  // `now` counts ticks and never goes back.
  void arm(Timer& timer, std::int64_t now, Duration after);
  void disarm(Timer& timer);

  // Fires everything due. A timer that fires may arm or disarm any timer, itself included.
  void advance(std::int64_t now);

  // Ticks until the next slot with timers; nothing if no timer is armed.
  std::optional<std::int64_t> ticks_to_next(std::int64_t now) const;

 private:
  static constexpr std::size_t slot_count = 1024;
  static constexpr std::size_t word_bits = 64;

  static std::size_t slot_of(std::int64_t due) { return static_cast<std::size_t>(due) % slot_count; }
  static void link(Timer& head, Timer& timer);
  static void unlink(Timer& timer);
  void fire_slot(std::size_t slot, std::int64_t now);

  std::array<Timer, slot_count> slots_;  // list heads
  std::array<std::uint64_t, slot_count / word_bits> occupied_{};
  std::int64_t fired_until_ = 0;
};

}  // namespace once::http
