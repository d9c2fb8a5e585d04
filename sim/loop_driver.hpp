// Runs an event loop on the simulated network in virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "http/loop.hpp"
#include "sim/sim_net.hpp"
#include "sim/world.hpp"

namespace once::sim {

// Runs rounds of the loop when something is ready or a timer is due.
class LoopDriver {
 public:
  LoopDriver(World& world, http::Loop& loop, SimPoller& poller);
  LoopDriver(const LoopDriver&) = delete;
  LoopDriver& operator=(const LoopDriver&) = delete;
  ~LoopDriver();

  // Called after each round.
  std::function<void()> after_turn;
  bool stopped() const { return stopped_; }
  // Pauses the loop, and then continues.
  void pause(Duration length) { paused_until_ = std::max(paused_until_, world_.now() + length); }
  // From now on the loop's owner runs it.
  void let_go() { state_->let_go = true; }

 private:
  struct State {
    LoopDriver* driver = nullptr;
    bool let_go = false;
  };
  void ask_for_turn(Duration after);
  void turn();

  World& world_;
  http::Loop& loop_;
  SimPoller& poller_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::optional<Time> next_;
  std::uint64_t asked_ = 0;
  bool stopped_ = false;
  bool in_turn_ = false;
  Time paused_until_{};
};

}  // namespace once::sim
