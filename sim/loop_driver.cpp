#include "sim/loop_driver.hpp"

namespace once::sim {

using namespace std::chrono_literals;

LoopDriver::LoopDriver(World& world, http::Loop& loop, SimPoller& poller)
    : world_(world), loop_(loop), poller_(poller) {
  state_->driver = this;
  poller_.wants_turn = [this] { ask_for_turn(0ms); };
  ask_for_turn(0ms);
}

LoopDriver::~LoopDriver() {
  state_->let_go = true;
  poller_.wants_turn = nullptr;
}

void LoopDriver::ask_for_turn(Duration after) {
  if (state_->let_go || stopped_ || in_turn_) return;
  const Time at = std::max(world_.now() + after, paused_until_);
  if (next_ && *next_ <= at) return;
  next_ = at;
  const std::uint64_t number = ++asked_;
  world_.after(at - world_.now(), [state = state_, number] {
    if (!state->let_go && state->driver->asked_ == number) state->driver->turn();
  });
}

void LoopDriver::turn() {
  next_.reset();
  if (world_.now() < paused_until_) return ask_for_turn(0ms);
  in_turn_ = true;
  stopped_ = loop_.run_ready() == http::Loop::After::stopped;
  in_turn_ = false;
  if (after_turn) after_turn();
  const int wait = loop_.wait_milliseconds();
  if (poller_.has_ready()) {
    ask_for_turn(0ms);
  } else if (wait >= 0) {
    ask_for_turn(Duration(wait));
  }
}

}  // namespace once::sim
