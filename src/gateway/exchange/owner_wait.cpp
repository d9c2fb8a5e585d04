#include "gateway/exchange/owner_wait.hpp"

#include <algorithm>

namespace once::gateway {

namespace {

// Ends a wait when its client leaves.
class Departure final : private Presence::Listener {
 public:
  Departure(Presence* presence, Waiters::Ticket& ticket)
      : presence_(presence), ticket_(ticket), left_(presence != nullptr && !presence->listen(*this)) {}
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;
  ~Departure() {
    if (presence_ != nullptr) presence_->stop_listening();
  }

  bool left() const { return left_; }

 private:
  void client_left() override {
    left_ = true;
    ticket_.end_wait();
  }

  Presence* presence_;
  Waiters::Ticket& ticket_;
  bool left_;
};

}  // namespace

void OwnerWait::begin(Ends ends, Duration limit) {
  ends_ = ends;
  limit_ = limit;
  waited_ = Duration::zero();
  look_.reset();
  came_at_once_ = false;
}

Task<bool> OwnerWait::wait(const OperationId& id, Presence* presence) {
  ports_.metrics.waiting.add();
  Waiters::Ticket ticket(ports_.waiters, id, ports_.home);
  Departure departure(presence, ticket);
  bool ended = false;
  bool was_at_work = false;
  bool paused = false;
  while (!departure.left()) {
    Op seen;
    seen.id = id;
    seen.waits = Waits::yes;
    const Duration began = ports_.clock.running();  // what the store takes counts, too
    co_await ports_.store.run(seen, ports_.home);
    // A store that does not answer says nothing of the owner: waited for like one.
    const bool owner_works = seen.status != OpStatus::done || (seen.record && seen.record->state == State::started &&
                                                               seen.now < seen.record->lease_until);
    if (departure.left()) break;
    // No owner can record its outcome any more, so there is nothing to wait for. Claiming again tells the caller why,
    // unless the operation is at work in this process.
    if (ports_.store.store().failed_for_good()) {
      ended = !ports_.executions.has(id);
      break;
    }
    // Sent away twice although nobody seems to own it: a backend is about to commit its outcome, and until then the
    // record cannot be claimed. Waited for like an owner, or this would go round and round.
    ended = !owner_works && (paused || !came_at_once_);
    was_at_work = was_at_work || owner_works;
    if (ended || waited_ >= limit_) break;
    const Duration look = look_.next();
    const Duration pause = std::min(ends_ == Ends::told ? slowest_look : look, limit_ - waited_);
    co_await ticket.wait(pause);
    waited_ += std::max(ports_.clock.running() - began, Duration(1));
    paused = true;
  }
  came_at_once_ = !paused;
  // The next owner is another one, and may be quicker.
  if (was_at_work) look_.reset();
  ports_.metrics.waiting.subtract();
  co_return ended;
}

}  // namespace once::gateway
