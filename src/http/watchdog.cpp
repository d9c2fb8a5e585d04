#include "http/watchdog.hpp"

#include <algorithm>

namespace once::http {

void Watchdog::watch(Loop& loop) {
  auto turn = std::make_unique<Turn>();
  turn->loop = &loop;
  turn->run = [](Work& work) { static_cast<Turn&>(work).taken.store(true, std::memory_order_release); };
  turns_.push_back(std::move(turn));
}

void Watchdog::forget(const Loop& loop) {
  std::erase_if(turns_, [&loop](const auto& turn) { return turn->loop == &loop; });
}

bool Watchdog::all_taken() const {
  return std::ranges::all_of(turns_, [](const auto& turn) { return turn->taken.load(std::memory_order_acquire); });
}

bool Watchdog::due(std::chrono::nanoseconds now) {
  if (limit_ == std::chrono::nanoseconds::zero() || turns_.empty() || !all_taken()) return false;
  const bool sign = asked_;
  asked_ = false;
  if (asked_at_ == std::chrono::nanoseconds::min() || now - asked_at_ >= limit_ / 4) {
    asked_ = true;
    asked_at_ = now;
    for (const auto& turn : turns_) {
      turn->taken.store(false, std::memory_order_relaxed);
      turn->loop->post(*turn);
    }
  }
  return sign;
}

}  // namespace once::http
