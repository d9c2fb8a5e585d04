#include "sim/world.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::sim {

void Trace::add(Time now, const std::string& line) {
  constexpr std::uint64_t prime = 0x100000001b3;
  const auto at = static_cast<std::uint64_t>((now - World::beginning).count());
  hash_ = (hash_ ^ at) * prime;
  for (const char letter : line) hash_ = (hash_ ^ static_cast<std::uint8_t>(letter)) * prime;
  if (kept_) lines_.push_back(fmt::format("{:>9.3f} {}", static_cast<double>(at) / 1000, line));
}

void World::after(Duration delay, std::function<void()> event) {
  events_.emplace(std::pair(now_ + std::max(delay, Duration::zero()), ++asked_), std::move(event));
}

void World::run_until(Time end) {
  while (!events_.empty() && events_.begin()->first.first <= end) {
    now_ = events_.begin()->first.first;
    const std::function<void()> event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    event();
  }
  now_ = std::max(now_, end);
}

void ProcessExecutor::post(Work& work) {
  ready_.push_back(&work);
  if (ready_.size() == 1 && !running_ && !over_) {
    wake_after(Duration::zero(), [this] { run_ready(); });
  }
}

// A paused process does what is due when it resumes.
void ProcessExecutor::wake_after(Duration delay, std::function<void()> event) {
  world_.after(delay, [this, event = std::move(event)] {
    if (!over_ && paused()) return wake_after(paused_until_ - world_.now(), event);
    event();
  });
}

void ProcessExecutor::run_ready() {
  if (running_) return;
  running_ = true;
  while (!ready_.empty()) {
    Work& work = *ready_.front();
    ready_.erase(ready_.begin());
    work.run(work);
  }
  running_ = false;
}

void ProcessExecutor::arm(Timer& timer, Duration after) {
  disarm(timer);
  timer.previous = timer.next = &timer;
  const std::uint64_t number = ++arms_;
  armed_[&timer] = number;
  order_.push_back(&timer);
  if (over_ || after > std::chrono::hours(24 * 365)) return;
  wake_after(after, [this, &timer, number] {
    const auto at = armed_.find(&timer);
    if (at != armed_.end() && at->second == number) fire(timer);
  });
}

void ProcessExecutor::disarm(Timer& timer) {
  if (armed_.erase(&timer) == 0) return;
  std::erase(order_, &timer);
  timer.previous = timer.next = nullptr;
}

void ProcessExecutor::fire(Timer& timer) {
  disarm(timer);
  timer.fire(timer);
}

void ProcessExecutor::run_out() {
  over_ = true;
  ONCE_ASSERT(!running_);
  while (!ready_.empty() || !order_.empty()) {
    run_ready();
    if (!order_.empty()) fire(*order_.front());
  }
}

}  // namespace once::sim
