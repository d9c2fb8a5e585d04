#include "store/owner_wait.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"
#include "store/claim_steps.hpp"

namespace once::store {

std::optional<Duration> OwnerWaitSteps::pause_after(const Op& look) {
  // If the store does not answer, assume that the owner is still executing.
  const bool works = look.status != OpStatus::done || owner_works(look);
  // The claim was refused twice although there seems to be no owner: a backend is about to commit its outcome, and the
  // record cannot be claimed before that. Wait as for an owner, instead of looping.
  owner_ended_ = !works && (paused_ || !came_at_once_);
  sometimes<"wait: refused twice without an owner">(!works && !owner_ended_);
  sometimes<"wait: store did not answer">(look.status != OpStatus::done);
  worked_ = worked_ || works;
  if (owner_ended_ || waited_ >= limit_) {
    came_at_once_ = !std::exchange(paused_, false);
    // The next owner is a different one and may be faster.
    if (std::exchange(worked_, false)) look_.reset();
    return std::nullopt;
  }
  const Duration look_again = look_.next();
  const Duration pause = std::min(ends_are_notified_ ? slowest_look : look_again, limit_ - waited_);
  // The lease may end without a notification.
  if (look.status == OpStatus::done && works) return std::min(pause, look.record->lease_until - look.now);
  return pause;
}

void OwnerWaitSteps::paused(Duration took) {
  waited_ += std::max(took, Duration(1));
  paused_ = true;
}

Task<WaitEnd> OwnerWait::wait(OperationId id, Presence* presence, Op& seen) {
  Waiters::Ticket ticket(ports_.waiters, id, ports_.home);
  const Departure departure(presence, ticket);
  while (!departure.left()) {
    seen = Op();
    seen.verb = awaited_ == Awaited::end_or_stream ? Verb::read : Verb::lookup;
    seen.id = id;
    seen.waits = Waits::yes;
    const Duration began = ports_.clock.running();
    co_await ports_.store.run(seen, ports_.home);
    if (departure.left()) break;
    if (ports_.store.store().failed_for_good()) co_return WaitEnd::store_failed;
    sometimes<"wait: the owner began to stream">(!seen.chunks.empty());
    if (!seen.chunks.empty()) co_return WaitEnd::streams;
    const std::optional<Duration> pause = steps_.pause_after(seen);
    sometimes<"wait: took too long">(!pause && !steps_.owner_ended());
    if (!pause) co_return steps_.owner_ended() ? WaitEnd::owner_ended : WaitEnd::limit;
    co_await ticket.wait(*pause);
    steps_.paused(ports_.clock.running() - began);
  }
  sometimes<"wait: the client left">();
  co_return WaitEnd::left;
}

}  // namespace once::store
