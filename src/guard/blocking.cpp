#include "guard/blocking.hpp"

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace once::guard {

void Blocking::post(Work& work) {
  // A lane posts to its caller the work that wakes the lane, to be run once the caller is idle. The posting thread is
  // about to block, which is the same, so run the work now.
  if (std::this_thread::get_id() == thread_) return work.run(work);
  const std::scoped_lock lock(mutex_);
  ready_ = &work;
  posted_.notify_one();  // with the mutex held: once it is free, this may be destroyed
}

void Blocking::arm(Timer& timer, Duration after) {
  ONCE_ASSERT(timer_ == nullptr);
  timer_ = &timer;
  timer_due_ = monotonic_now() + after;
}

void Blocking::disarm(Timer& timer) {
  if (timer_ == &timer) timer_ = nullptr;
}

void Blocking::run_until_done() {
  while (!done_) {
    std::unique_lock lock(mutex_);
    const auto posted = [this] { return ready_ != nullptr; };
    if (timer_ == nullptr) {
      posted_.wait(lock, posted);
    } else {
      posted_.wait_for(lock, timer_due_ - monotonic_now(), posted);
    }
    Work* const work = std::exchange(ready_, nullptr);
    lock.unlock();
    if (work != nullptr) {
      work->run(*work);
    } else if (timer_ != nullptr && monotonic_now() >= timer_due_) {
      Timer& due = *std::exchange(timer_, nullptr);
      due.fire(due);
    }
  }
  done_ = false;
}

Task<void> Blocking::complete(Task<void> task, Blocking& home) {
  co_await task;
  home.done_ = true;
}

}  // namespace once::guard
