#include "store/claimant.hpp"

#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::store {

Task<ClaimResult> Claimant::claim(Op& claim, Hold hold) {
  claim.verb = Verb::claim;
  claim.nonce = ports_.random.nonce();
  if (!shared_ && claim.terms.owner == Owner::process) claim.terms.lease = Duration::max();
  return drive(ClaimSteps(claim, hold), claim, Strays::taken_back);
}

Task<ClaimResult> Claimant::claim_as_named(Op& claim) {
  return drive(ClaimSteps(claim), claim, Strays::left);
}

Task<ClaimResult> Claimant::hold(Op& claim, Time since) {
  return drive(ClaimSteps(claim, since), claim, Strays::left);
}

Task<ClaimResult> Claimant::drive(ClaimSteps steps, Op& claim, Strays strays) {
  const Store& store = ports_.store.store();
  Op* asking = steps.next(store, ports_.clock.now());
  while (asking != nullptr) {
    co_await ports_.store.run(*asking, ports_.home);
    host_.store_answered(*asking);
    asking = steps.next(store, ports_.clock.now());
    if (asking == &claim) host_.store_failed(claim);
  }
  if (claim.status == OpStatus::failed) {
    host_.store_failed(claim);
  } else if (strays == Strays::taken_back && steps.result().stands == Stands::perhaps) {
    sometimes<"claim: a stray copy is taken back">();
    take_back_later(claim);
  }
  co_return steps.result();
}

Task<void> Claimant::ask(Op& op) {
  co_await drive(ClaimSteps(op), op, Strays::left);
}

Task<Executions::Entered> Claimant::enter(const Op& claim, Executions::Entry& work) {
  const Executions::Entered entered = work.enter(claim);
  if (entered == Executions::Entered::other_request) {
    sometimes<"claim: granted for another request than the one at work">();
    Op release = end_of(claim, Verb::release, claim.nonce);
    co_await end_soon(release);
  }
  co_return entered;
}

Task<void> Claimant::leave(const Op& ended, Executions::Entry& work) {
  const std::optional<Nonce> handed = work.leave();
  if (!handed || *handed == ended.nonce) co_return;
  const bool settled = ended.verb == Verb::release || (ended.verb == Verb::finish && ended.status == OpStatus::done);
  sometimes<"leave: a claim handed over too late is released">(settled);
  sometimes<"leave: a claim handed over too late becomes unknown">(!settled);
  Op end = end_of(ended, settled ? Verb::release : Verb::finish, *handed);
  co_await end_soon(end);
}

Task<void> Claimant::end(Op& end, Duration limit, const Executions::Entry* work) {
  ONCE_ASSERT(end.nonce != Nonce());  // every write is guarded by the nonce of its claim
  if (!host_.has_room_for(end)) {
    answer_failed(end, StoreFault::full, "the quota of stored bytes is used up");
    sometimes<"quota: chunk refused">();
    co_return;
  }
  const Patience patience{.limit = limit};
  EndSteps steps(end, patience, work);
  const Duration began = ports_.clock.running();
  std::optional<Duration> pause = Duration::zero();
  while (pause) {
    co_await sleep_for(ports_.home, *pause);
    co_await ports_.store.run(end, ports_.home);
    host_.store_answered(end);
    if (end.status == OpStatus::failed) host_.store_failed(end);
    pause = steps.again(ports_.store.store(), ports_.clock.running() - began);
    if (pause && end.status == OpStatus::failed) host_.retries(end);
  }
}

Task<void> Claimant::end_soon(Op& op, const Executions::Entry* work) {
  co_await end(op, Duration::zero(), work);
  if (op.status == OpStatus::failed) {
    sometimes<"end: left to the background">();
    end_later(op, Stands::yes);
  }
}

Task<void> Claimant::release(Op& release) {
  release.verb = Verb::release;
  co_await ask(release);
  if (release.status != OpStatus::lost) co_return;
  // The release may have been done by an earlier try whose answer was lost; then there is no owner. Otherwise another
  // owner or an outcome is in the way.
  Op seen;
  seen.id = release.id;
  co_await ask(seen);
  const Standing standing = standing_of(seen, release.nonce);
  sometimes<"release: was done by an earlier try">(standing == Standing::released || standing == Standing::nothing);
  sometimes<"release: another owner is in the way">(standing == Standing::taken_over);
  if (standing == Standing::unseen) answer_failed(release, seen.fault, seen.error);
  if (standing == Standing::nothing || standing == Standing::released) release.status = OpStatus::done;
}

void Claimant::take_back_later(const Op& claim) {
  end_later(end_of(claim, Verb::release, claim.nonce), Stands::perhaps);
}

void Claimant::end_later(Op end, Stands claim, std::shared_ptr<const void> kept_alive) {
  end.tenant = {};  // views of a request that has ended
  end.route = {};
  end.record.reset();
  host_.end_in_background(std::move(end), claim, std::move(kept_alive));
}

Task<NewerClaim> Claimant::claim_anew(Op& lost, Executions::Entry& work) {
  Op seen;
  seen.id = lost.id;
  co_await ports_.store.run(seen, ports_.home);
  if (standing_of(seen, lost.nonce) != Standing::nothing) co_return NewerClaim::none;
  Op claim{.id = lost.id, .fingerprint = work.fingerprint(), .terms = lost.terms};
  claim.tenant = lost.tenant;
  claim.route = lost.route;
  const ClaimResult claimed = co_await this->claim(claim);
  if (claim.status == OpStatus::failed && claimed.stands == Stands::perhaps) {  // the work continues without it
    sometimes<"claim anew: no answer">();
    end_later(end_of(claim, Verb::finish, claim.nonce), Stands::perhaps);
  }
  if (claim.status != OpStatus::done || claim.verdict != Verdict::execute) co_return NewerClaim::none;
  if (claim.record->attempt != Attempt{1}) {  // another owner has claimed and ended it since the lookup
    sometimes<"claim anew: another owner was faster">();
    Op release = end_of(claim, Verb::release, claim.nonce);
    co_await end_soon(release);
    co_return NewerClaim::none;
  }
  work.hand_over(claim);
  sometimes<"claim anew: the store had lost the record">();
  co_return take_handed(lost, &work);
}

// A backend that commits its outcome in its own transaction does so before it answers. Its outcome stands, whatever
// response arrived here; so does an outcome that an operator recorded meanwhile.
Task<Committed> Claimant::find_committed(Op& end) {
  Op seen;
  seen.id = end.id;
  co_await ports_.store.run(seen, ports_.home);
  host_.store_answered(seen);
  if (standing_of(seen, end.nonce) != Standing::succeeded || seen.record->outcome == nullptr) co_return Committed::no;
  if (shared_) {
    // Repeat the finish, which changes nothing: it makes this claim settled.
    end.verb = Verb::finish;
    end.final_state = State::succeeded;
    end.body_kept = seen.record->body_kept;
    end.outcome = seen.record->outcome;
    co_await ports_.store.run(end, ports_.home);
    sometimes<"committed: gone before it could be confirmed">(end.status != OpStatus::done);
    if (end.status != OpStatus::done) co_return Committed::no;
  }
  sometimes<"committed: another wrote the outcome for this owner">();
  end.record = std::move(seen.record);
  co_return Committed::yes;
}

}  // namespace once::store
