#include "admin/store_probe.hpp"

#include "store/store.hpp"

namespace once::admin {

Task<void> StoreProbe::question(ThreadLanes& lanes, std::shared_ptr<Answer> answer) {
  Op probe;  // a lookup of an id that is never used
  co_await lanes.run(probe, answer->home);
  answer->error = probe.error;
  answer->state.store(probe.status == OpStatus::failed ? State::down : State::up, std::memory_order_relaxed);
  answer->open.store(false, std::memory_order_release);
}

void StoreProbe::ask(Instant now, Duration age) {
  if (state(now) != State::unknown && now - asked_at_ < age) return;
  if (answer_->open.exchange(true, std::memory_order_acquire)) return;
  asked_at_ = now;
  spawn(question(lanes_, answer_));
}

StoreProbe::State StoreProbe::state(Instant now) const {
  if (answer_->open.load(std::memory_order_acquire) && asked_at_ + patience < now) return State::down;
  return answer_->state.load(std::memory_order_relaxed);
}

std::string_view StoreProbe::error() const {
  return answer_->open.load(std::memory_order_acquire) ? "no answer" : std::string_view(answer_->error);
}

bool StoreProbe::undecided(Instant now) const {
  return answer_->open.load(std::memory_order_acquire) && now <= asked_at_ + patience;
}

}  // namespace once::admin
