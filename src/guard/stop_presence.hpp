// Makes a std::stop_token of the caller a Presence. A stop request wakes the waiters of the operation (Waiters::notify)
// from any thread; they check this when they wake.
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
