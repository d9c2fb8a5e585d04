// A flag that coroutines wait for, all on one executor's thread. What the flag means ("the upload has ended") and
// whether it starts set are its owner's choice.
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "base/executor.hpp"

namespace once::base {

class [[nodiscard]] Event {
 public:
  enum class Initially : std::uint8_t { clear, set };

  explicit Event(Initially initially = Initially::clear) : set_(initially == Initially::set) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // By now nothing may wait for the event, unless the waiting coroutine is being destroyed, too.
  ~Event() = default;

  bool is_set() const { return set_; }
  void clear() { set_ = false; }
  // Resumes the coroutine that waits, before this returns. It may destroy the event.
  void set() {
    set_ = true;
    if (const auto waits = std::exchange(waiting_, nullptr)) waits.resume();
  }

  // co_await event: returns when the event is set, at once if it is.
  bool await_ready() const noexcept { return set_; }
  void await_suspend(std::coroutine_handle<> caller) {
    ONCE_ASSERT(!waiting_);
    waiting_ = caller;
  }
  void await_resume() const noexcept {}

  // co_await event.within(executor, limit): returns whether it was set in time.
  class Within;
  Within within(Executor& executor, Duration limit);

 private:
  std::coroutine_handle<> waiting_;
  bool set_;
};

class [[nodiscard]] Event::Within final : private Timer {
 public:
  Within(Event& event, Executor& executor, Duration limit) : event_(event), executor_(executor), limit_(limit) {
    fire = [](Timer& timer) {
      auto& self = static_cast<Within&>(timer);
      std::exchange(self.event_.waiting_, nullptr).resume();
    };
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
  ~Within() {
    if (!armed()) return;
    disarm();
    event_.waiting_ = nullptr;
  }

  bool await_ready() const noexcept { return event_.set_ || limit_ <= Duration::zero(); }
  void await_suspend(std::coroutine_handle<> caller) {
    event_.await_suspend(caller);
    executor_.arm(*this, limit_);
  }
  bool await_resume() {
    disarm();
    return event_.set_;
  }

 private:
  void disarm() {
    if (armed()) executor_.disarm(*this);
  }

  Event& event_;
  Executor& executor_;
  Duration limit_;
};

inline Event::Within Event::within(Executor& executor, Duration limit) {
  return {*this, executor, limit};
}

}  // namespace once::base
