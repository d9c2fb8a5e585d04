// Runs coroutines: one thread's event loop in production, virtual time in the simulator. Work and timers are intrusive:
// the caller owns the memory, and nothing is allocated here.
#pragma once

#include <coroutine>
#include <cstdint>
#include <span>

#include "base/clock.hpp"

namespace once::base {

// Something to run later on the executor's own thread. May be queued in one place at a time.
struct Work {
  Work* next = nullptr;
  void (*run)(Work&) = nullptr;
};

// Fires once unless disarmed. Must be disarmed before it is destroyed; an armed timer may not move.
struct Timer {
  Timer* previous = nullptr;
  Timer* next = nullptr;
  std::int64_t due = 0;  // in the executor's own ticks
  void (*fire)(Timer&) = nullptr;

  bool armed() const { return previous != nullptr; }
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Thread-safe: runs `work` on the executor's thread, in the order that the calling thread posted. From the executor's
  // own thread: runs it after everything that is ready now, and before waiting for more.
  virtual void post(Work& work) = 0;
  // The same for many at once, with a single wake-up.
  virtual void post_all(std::span<Work* const> works) {
    for (Work* work : works) post(*work);
  }

  // Only from the executor's own thread. Fires late by at most one tick of the loop, never early.
  virtual void arm(Timer& timer, Duration after) = 0;
  virtual void disarm(Timer& timer) = 0;
};

// co_await sleep_for(executor, 50ms)
class SleepFor final : private Timer {
 public:
  SleepFor(Executor& executor, Duration after) : executor_(executor), after_(after) {}

  bool await_ready() const noexcept { return after_ <= Duration::zero(); }
  void await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    fire = [](Timer& timer) { static_cast<SleepFor&>(timer).caller_.resume(); };
    executor_.arm(*this, after_);
  }
  void await_resume() const noexcept {}

 private:
  Executor& executor_;
  Duration after_;
  std::coroutine_handle<> caller_;
};

inline SleepFor sleep_for(Executor& executor, Duration after) {
  return {executor, after};
}

}  // namespace once::base
