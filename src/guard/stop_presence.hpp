// The caller of a guard as somebody who may stop waiting. Whoever requests the stop wakes those who wait for the
// operation (Waiters::notify), from any thread; they look here when they wake.
#pragma once

#include <stop_token>
#include <utility>

#include "store/owner_wait.hpp"

namespace once::guard {

class StopPresence final : public Presence {
 public:
  explicit StopPresence(std::stop_token stop) : stop_(std::move(stop)) {}

  bool listen(Listener& /*listener*/) override { return true; }
  void stop_listening() override {}
  bool has_left() override { return stop_.stop_requested(); }

 private:
  const std::stop_token stop_;
};

}  // namespace once::guard
