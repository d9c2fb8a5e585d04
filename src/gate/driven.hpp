// A coroutine on a gate's loop that has an owner, unlike one started with spawn(). The owner can destroy it while it
// waits, so a gate that ends leaves nothing behind.
#pragma once

#include <coroutine>
#include <utility>

#include "base/assert.hpp"
#include "base/task.hpp"

namespace once::gate {

class Driven {
 public:
  struct promise_type : PooledFrame {
    Driven get_return_object() { return Driven(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const { assertion_failed("a task does not throw", __FILE__, __LINE__); }
    void return_void() const noexcept {}
  };

  Driven() = default;
  Driven(Driven&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Driven& operator=(Driven&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~Driven() {
    if (frame_) frame_.destroy();
  }

  void start() { frame_.resume(); }

 private:
  explicit Driven(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  std::coroutine_handle<promise_type> frame_;
};

inline Driven drive(Task<void> task) {
  co_await task;
}

// One coroutine waits until another function signals it.
class Arrival {
 public:
  bool await_ready() const noexcept { return here_; }
  void await_suspend(std::coroutine_handle<> waits) noexcept { waits_ = waits; }
  void await_resume() noexcept { here_ = false; }

  // Resumes the waiting coroutine before this returns.
  void arrived() {
    here_ = true;
    if (auto waits = std::exchange(waits_, nullptr)) waits.resume();
  }

 private:
  bool here_ = false;
  std::coroutine_handle<> waits_;
};

}  // namespace once::gate
