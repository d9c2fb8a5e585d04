// Signs of life for a service manager: one is due only when every event loop has had a turn since the last one. A timer
// alone would go on while a loop hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/executor.hpp"
#include "http/loop.hpp"

namespace once::http {

// From one thread. Outlives the loops.
class Watchdog {
 public:
  // Without a sign for so long the process is taken for dead; zero: nobody waits for one.
  void set_limit(std::chrono::nanoseconds limit) { limit_ = limit; }
  void watch(Loop& loop);
  // A loop that runs no more.
  void forget(const Loop& loop);

  // To be called about as often as look_every() says. True: every loop has had a turn, and it is time to say so.
  bool due(std::chrono::nanoseconds now);
  // Zero: nobody waits for a sign.
  std::chrono::nanoseconds look_every() const { return limit_ / 8; }

 private:
  struct Turn : Work {
    Loop* loop = nullptr;
    std::atomic<bool> taken = true;
  };

  bool all_taken() const;

  std::chrono::nanoseconds limit_{};
  std::chrono::nanoseconds asked_at_ = std::chrono::nanoseconds::min();
  bool asked_ = false;
  std::vector<std::unique_ptr<Turn>> turns_;
};

}  // namespace once::http
