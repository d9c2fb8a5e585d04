#include "guard/async_loop.hpp"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.hpp"
#include "base/signals.hpp"

namespace once::guard {

namespace {

constexpr std::chrono::nanoseconds longest_idle = std::chrono::hours(1);

struct Start : Work {
  explicit Start(Task<void> the_task) : task(std::move(the_task)) {}
  Task<void> task;
};

}  // namespace

AsyncLoop::~AsyncLoop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void AsyncLoop::start(Task<void> task) {
  auto begin = std::make_unique<Start>(std::move(task));
  begin->run = [](Work& work) {
    const std::unique_ptr<Start> self(static_cast<Start*>(&work));
    spawn(std::move(self->task));
  };
  post(*begin);
  [[maybe_unused]] const Start* const posted = begin.release();  // the loop frees it, and may have done so
}

void AsyncLoop::post(Work& work) {
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) {
    const SignalsBlocked quiet;
    thread_ = std::thread([this] { loop(); });  // may throw; then nothing is posted
    pthread_setname_np(thread_.native_handle(), "once-async");
  }
  work.next = nullptr;
  (last_ == nullptr ? first_ : last_->next) = &work;
  last_ = &work;
  posted_.notify_all();
}

void AsyncLoop::arm(Timer& timer, Duration after) {
  timer.previous = &timer;
  const Nanoseconds due = monotonic_now() + after;
  timer.due = due.count();
  timers_.emplace(due, &timer);
}

void AsyncLoop::disarm(Timer& timer) {
  if (!timer.armed()) return;
  timer.previous = nullptr;
  const auto [begin, end] = timers_.equal_range(Nanoseconds(timer.due));
  const auto found = std::find_if(begin, end, [&](const auto& each) { return each.second == &timer; });
  if (found != end) timers_.erase(found);
}

void AsyncLoop::loop() {
  own_thread_ = std::this_thread::get_id();
  while (Work* work = take_posted()) {
    while (work != nullptr) {
      Work* const next = work->next;  // once it has run it may be destroyed, or posted again
      if (work->run != nullptr) work->run(*work);
      work = next;
    }
    fire_due();
  }
}

// The next work to run; a no-op if a timer is due. Null: the loop ends.
Work* AsyncLoop::take_posted() {
  static Work nothing;
  std::unique_lock lock(mutex_);
  while (first_ == nullptr && !stopping_) {
    const Nanoseconds now = monotonic_now();
    const Nanoseconds due = timers_.empty() ? now + longest_idle : timers_.begin()->first;
    if (due <= now) return &nothing;
    posted_.wait_for(lock, due - now);
  }
  last_ = nullptr;
  return std::exchange(first_, nullptr);
}

void AsyncLoop::fire_due() {
  while (!timers_.empty() && timers_.begin()->first <= monotonic_now()) {
    Timer& timer = *timers_.begin()->second;
    timers_.erase(timers_.begin());
    timer.previous = nullptr;
    timer.fire(timer);
  }
}

}  // namespace once::guard
