#include "guard/background.hpp"

#include <pthread.h>

#include <utility>
#include <vector>

#include "base/signals.hpp"

namespace once::guard {

Background::~Background() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// Call with the mutex held.
void Background::wake() {
  if (!thread_.joinable()) {
    const SignalsBlocked quiet;
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), "once-guard");
  }
  wake_.notify_all();
}

std::uint64_t Background::keep(Lease& lease, const LeaseSteps& steps) {
  const std::scoped_lock lock(mutex_);
  const auto now = monotonic_now();
  const bool sooner = !thread_.joinable() || upkeep_.is_next(steps, now) == ClaimUpkeep::Wake::yes;
  const std::uint64_t serial = upkeep_.keep(lease, steps, now);
  if (sooner) wake();
  return serial;
}

void Background::let_go(std::uint64_t serial) {
  if (process_.forked()) return;  // the mutex may have been locked during the fork, and would never be unlocked
  const std::scoped_lock lock(mutex_);
  upkeep_.let_go(serial);
}

void Background::end(Op end, Stands claim) {
  const std::scoped_lock lock(mutex_);
  if (upkeep_.end(std::move(end), claim, monotonic_now()) == ClaimUpkeep::Wake::yes) wake();
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto now = monotonic_now();
    ClaimUpkeep::Due due = upkeep_.due(now);
    if (due.empty()) {
      wake_.wait_for(lock, upkeep_.until_next(now));
      continue;
    }
    lock.unlock();
    for (const std::vector<Op*>& batch : due.batches()) execute_caught(store_, batch);
    const auto answered = monotonic_now();
    for (const OperationId& id : upkeep_.ended(due, answered)) ended_(id);
    lock.lock();
    upkeep_.answered(due, monotonic_now());
  }
}

}  // namespace once::guard
