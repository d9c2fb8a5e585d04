// - Task<T>: a coroutine that starts when it is awaited and returns its result to the awaiting coroutine.
// - spawn(): starts a Task<void> that is not awaited; its frame frees itself at the end.
// A task never throws: functions that can fail return a Result. An exception that escapes a task is a broken invariant.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/assert.hpp"

namespace once::base {

// Coroutine frames come from a per-thread free list: a request allocates nothing once warmed up.
void* allocate_frame(std::size_t size);
void free_frame(void* frame, std::size_t size) noexcept;

struct PooledFrame {
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }
};

template <class T>
class Task;

namespace detail {

struct ResumeCaller {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
    return finished.promise().caller;
  }
  void await_resume() const noexcept {}
};

struct TaskPromiseBase : PooledFrame {
  std::coroutine_handle<> caller = std::noop_coroutine();

  std::suspend_always initial_suspend() const noexcept { return {}; }
  ResumeCaller final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const { assertion_failed("a task does not throw", __FILE__, __LINE__); }
};

template <class T>
struct TaskPromise : TaskPromiseBase {
  std::optional<T> value;

  Task<T> get_return_object();
  template <class U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    ONCE_ASSERT(value.has_value());
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase {
  Task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;

  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  Task& operator=(Task&&) = delete;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (frame_) frame_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    frame_.promise().caller = caller;
    return frame_;
  }
  T await_resume() { return frame_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<TaskPromise<T>>::from_promise(*this));
}

inline Task<void> TaskPromise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<TaskPromise<void>>::from_promise(*this));
}

struct Detached {
  struct promise_type : PooledFrame {
    Detached get_return_object() const noexcept { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    [[noreturn]] void unhandled_exception() const { assertion_failed("a task does not throw", __FILE__, __LINE__); }
    void return_void() const noexcept {}
  };
};

inline Detached run_detached(Task<void> task) {
  co_await task;
}

}  // namespace detail

inline void spawn(Task<void> task) {
  detail::run_detached(std::move(task));
}

}  // namespace once::base
