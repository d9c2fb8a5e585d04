// A value behind a mutex. The value is reached through the lock only, so a function that needs the lock takes a
// reference to the value, and no caller has one without holding the lock.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/assert.hpp"

namespace once::base {

// The lock on a Synchronized value, and the value while it is held.
template <class T>
class [[nodiscard]] Locked {
 public:
  Locked(std::mutex& mutex, T& value) : lock_(mutex), value_(value) {}

  T& operator*() const {
    ONCE_ASSERT(lock_.owns_lock());
    return value_;
  }
  T* operator->() const { return &**this; }

  // Releases the lock for slow work. References to the value must not be used until lock().
  void unlock() { lock_.unlock(); }
  void lock() { lock_.lock(); }
  // Releases the lock while it waits.
  void wait(std::condition_variable& changed, auto&& until) { changed.wait(lock_, until); }

 private:
  std::unique_lock<std::mutex> lock_;
  T& value_;
};

template <class T>
class Synchronized {
 public:
  template <class... Args>
  explicit Synchronized(Args&&... args) : value_(std::forward<Args>(args)...) {}
  Synchronized(const Synchronized&) = delete;
  Synchronized& operator=(const Synchronized&) = delete;

  Locked<T> lock() { return {mutex_, value_}; }
  Locked<const T> lock() const { return {mutex_, value_}; }

  // Without the lock, for a caller that knows that no other thread changes the value now.
  const T& unlocked() const { return value_; }

 private:
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace once::base
