// The result of a call, reported exactly once: if a gate ends before a call does, the result is Cancelled.
#pragma once

#include <functional>
#include <utility>

#include "base/layers.hpp"

namespace once::gate {

// The call was cancelled, or its gate has ended.
struct Cancelled {};

// T is constructible from Cancelled.
template <class T>
class Completion {
 public:
  Completion() = default;
  template <class F>
    requires std::invocable<F&, T>
  explicit Completion(F then) : then_(std::move(then)) {}
  Completion(Completion&& other) noexcept : then_(std::exchange(other.then_, nullptr)) {}
  Completion& operator=(Completion&& other) noexcept {
    std::swap(then_, other.then_);
    return *this;
  }
  ~Completion() { complete(T(Cancelled())); }

  // Whether there is a callback that was not called yet.
  explicit operator bool() const { return static_cast<bool>(then_); }
  // Drops the callback: the call did not begin, and its caller learns that from the return value.
  void dismiss() { then_ = nullptr; }
  void complete(T what) {
    if (auto then = std::exchange(then_, nullptr)) then(std::move(what));
  }

 private:
  std::move_only_function<void(T)> then_;
};

}  // namespace once::gate
