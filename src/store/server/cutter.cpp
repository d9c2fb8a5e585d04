#include "store/server/cutter.hpp"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/signals.hpp"

namespace once::store {

Cutter::Call::Call(Cutter& cutter, int socket, std::chrono::nanoseconds until) : cutter_(cutter), socket_(socket) {
  const std::scoped_lock lock(cutter_.mutex_);
  place_ = cutter_.calls_.emplace(until, this);
  if (!cutter_.thread_.joinable()) {
    const SignalsBlocked quiet;
    cutter_.thread_ = std::thread([&cutter] { cutter.loop(); });
    pthread_setname_np(cutter_.thread_.native_handle(), "once-cutter");
  }
  if (place_ == cutter_.calls_.begin()) cutter_.changed_.notify_all();
}

Cutter::Call::~Call() {
  end();
}

Cutter::Call::Ended Cutter::Call::end() {
  const std::scoped_lock lock(cutter_.mutex_);
  if (listed_) cutter_.calls_.erase(place_);
  listed_ = false;
  return cut_ ? Ended::cut : Ended::in_time;
}

Cutter::~Cutter() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// The thread wakes when the earliest call times out, and when a call begins that times out before all others.
void Cutter::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (calls_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [until, earliest] = *calls_.begin();
    Call& call = *earliest;
    const std::chrono::nanoseconds left = until - monotonic_now();
    if (left > std::chrono::nanoseconds::zero()) {
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, std::chrono::minutes(1)));
      continue;
    }
    ::shutdown(call.socket_, SHUT_RDWR);
    call.cut_ = true;
    call.listed_ = false;
    calls_.erase(call.place_);
  }
}

}  // namespace once::store
