// Watchdog pings for a service manager. A ping is sent only after every event loop has made a round since the last one:
// a timer alone would continue while a loop hangs.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "base/executor.hpp"
#include "http/loop.hpp"

namespace once::http {

// For one thread. Outlives the loops.
class Watchdog {
 public:
  // The service manager's timeout; zero: the watchdog is off.
  void set_limit(std::chrono::nanoseconds limit) { limit_ = limit; }
  void watch(Loop& loop);
  // Removes a loop that has stopped.
  void forget(const Loop& loop);

  // Call about every look_every(): whether every loop has made a round, so that a ping is due.
  bool due(std::chrono::nanoseconds now);
  // Zero: the watchdog is off.
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
