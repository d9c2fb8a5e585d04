#include "sim/lanes.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

}  // namespace

Lanes::Submit SimLanes::submit(Pending& pending) {
  if (cut_off_) {
    answer_the_dead(pending.op);
    return Submit::refused;
  }
  queue_.push(pending);
  if (!busy_) {
    busy_ = true;
    world_.after(0ms, [this] { depart(); });
  }
  return Submit::taken;
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
  queue_.execute(store());
  world_.after(world_.draw.between(0ms, 40ms), [this] { tell(); });
}

void SimLanes::tell() {
  if (cut_off_) return;
  for (Pending* pending : queue_.pending()) complete(*pending);
  under_way_ = false;
  busy_ = !queue_.empty();
  if (busy_) depart();
}

void SimLanes::cut_off() {
  cut_off_ = true;
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
  op.error.clear();
  switch (op.verb) {
    case Verb::claim: return answer_failed(op, StoreFault::full, "the process is gone");
    case Verb::lookup: op.status = OpStatus::done; return;
    case Verb::renew:
    case Verb::finish:
    case Verb::release: op.status = OpStatus::lost; return;
  }
}

}  // namespace once::sim
