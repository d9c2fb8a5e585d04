#include "sim/lanes.hpp"

#include <fmt/format.h>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

// The most claims of one request. It claims again when an owner that it waited for has ended, but never without a
// pause.
constexpr unsigned most_claims = 80;

}  // namespace

Lanes::Submit SimLanes::submit(Pending& pending) {
  if (cut_off_) {
    answer_the_dead(pending.op);
    return Submit::refused;
  }
  history_.asks(pending.op);
  watch(pending.op);
  queue_.push(pending);
  if (!busy_) {
    busy_ = true;
    world_.after(0ms, [this] { depart(); });
  }
  return Submit::taken;
}

void SimLanes::watch(const Op& op) {
  const bool gives_up = op.verb == Verb::finish && op.final_state == State::unknown;
  if (op.verb == Verb::release || gives_up) history_.takes_back(op.nonce);
  if (op.verb != Verb::claim) return;
  owners_.push_back(op.nonce);
  // Count only claims that have no process. Otherwise connections reuse the memory of their requests, so different
  // requests have the same address.
  if (process_ == nullptr && ++asks_[&op] == most_claims) {
    history_.violated(fmt::format("a request for key {} claimed it {} times", to_hex(op.id).substr(0, 8), most_claims));
  }
}

void SimLanes::depart() {
  if (cut_off_) return;
  queue_.gather();
  under_way_ = true;
  arrived_ = false;
  world_.after(world_.draw.between(0ms, 40ms), [this] { arrive(); });
}

void SimLanes::arrive() {
  if (cut_off_) return;
  arrived_ = true;
  tried_ = queue_.execute(store());
  if (network_ != nullptr) redirected_ = network_->take_redirected();
  if (redirected_.empty()) {
    world_.after(way_back(), [this] { answer(); });
  } else {
    world_.after(world_.draw.between(1ms, 400ms), [this] { arrive_at_last(); });
  }
}

Duration SimLanes::way_back() {
  const Duration usual = world_.draw.between(0ms, 40ms);
  return late_ > 0 && world_.draw.percent(late_) ? usual + world_.draw.between(200ms, 5s) : usual;
}

void SimLanes::arrive_at_last() {
  if (cut_off_) return;
  network_->arrive_at_last(redirected_);
  // Like the production queue: when the batch is retried, a refused op may have been done by the first try.
  for (Op* op : redirected_) {
    const bool again = tried_ == LaneQueue::Tried::again_one_by_one;
    if (again && op->status == OpStatus::failed) op->fault = StoreFault::unavailable;
  }
  redirected_.clear();
  world_.after(world_.draw.between(0ms, 40ms), [this] { answer(); });
}

void SimLanes::answer() {
  if (cut_off_) return;
  for (Pending* pending : queue_.pending()) {
    history_.gateway_received(pending->op, process_ != nullptr ? *process_ : pending->home);
    complete(*pending);
  }
  under_way_ = false;
  busy_ = !queue_.empty();
  if (busy_) depart();
}

void SimLanes::cut_off() {
  cut_off_ = true;
  for (const Nonce& nonce : owners_) history_.owner_is_gone(nonce);
  if (!redirected_.empty() && world_.draw.one_in(2)) network_->deliver_later(redirected_, 20ms);
  if (under_way_) {
    std::vector<Op*> on_their_way;
    for (Pending* pending : queue_.pending()) on_their_way.push_back(&pending->op);
    if (network_ != nullptr && !arrived_ && world_.draw.one_in(2)) network_->deliver_later(on_their_way, 20ms);
    for (Pending* pending : queue_.pending()) {
      answer_the_dead(pending->op);
      complete(*pending);
    }
  }
  while (!queue_.empty()) {
    queue_.gather();
    for (Pending* pending : queue_.pending()) {
      answer_the_dead(pending->op);
      complete(*pending);
    }
  }
}

void SimLanes::answer_the_dead(Op& op) {
  op.record.reset();
  op.chunks.clear();
  op.error.clear();
  switch (op.verb) {
    case Verb::claim: return answer_failed(op, StoreFault::full, "the process is gone");
    case Verb::read:
    case Verb::lookup: op.status = OpStatus::done; return;
    case Verb::renew:
    case Verb::finish:
    case Verb::release:
    case Verb::forget:
    case Verb::append:
    case Verb::resolve: op.status = OpStatus::lost; return;
  }
}

}  // namespace once::sim
