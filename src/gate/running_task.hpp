// A coroutine on a gate's loop that has an owner, unlike one started with spawn(). The owner can destroy it while it
// waits, so a gate that ends leaves nothing behind.
#pragma once

#include <coroutine>
#include <utility>

#include "base/assert.hpp"
#include "base/task.hpp"

namespace once::gate {

class RunningTask {
 public:
  struct promise_type : PooledFrame {
    RunningTask get_return_object() { return RunningTask(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const { assertion_failed("a task does not throw", __FILE__, __LINE__); }
    void return_void() const noexcept {}
  };

  RunningTask() = default;
  RunningTask(RunningTask&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  RunningTask& operator=(RunningTask&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~RunningTask() {
    if (frame_) frame_.destroy();
  }

  void start() { frame_.resume(); }

 private:
  explicit RunningTask(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

inline RunningTask run_owned(Task<void> task) {
  co_await task;
}

}  // namespace once::gate
