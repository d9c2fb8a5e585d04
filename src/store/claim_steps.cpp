#include "store/claim_steps.hpp"

#include <algorithm>

#include "base/sometimes.hpp"

namespace once::store {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration first_end_retry = milliseconds(20);
constexpr Duration slowest_early_retry = seconds(1);
// The store counts as just down for this long: retry early and often, later slowly.
constexpr Duration early = seconds(30);
constexpr Duration slowest_late_retry = seconds(5);
// How long an abandoned claim may take to reach a shared store that answers other calls. Short, because a drain waits
// for its release.
constexpr Duration latest_arrival = seconds(10);

bool got_no_answer(const Op& op) {
  return op.status == OpStatus::failed && op.fault == StoreFault::unavailable;
}

bool is_granted(const Op& claim) {
  return claim.status == OpStatus::done && claim.verb == Verb::claim && claim.verdict == Verdict::execute;
}

// Whether so much time has passed that the lease cannot be relied on. If the clock was set back, the elapsed time is
// unknown, so the lease cannot be relied on either.
bool too_long_for_lease(Duration took, Duration lease) {
  return took < Duration::zero() || took >= lease / 2;
}

// `took` is the time since the lease was asked for, by the caller's clock.
bool may_have_lapsed(const Op& claim, Duration took) {
  if (!is_granted(claim)) return false;
  if (claim.record->lease_until == Time::max()) return false;  // the owner is the process: no lease
  return claim.record->lease_until <= claim.now || too_long_for_lease(took, claim.terms.lease);
}

// Ask again only if the first try failed quickly: after a timeout, the caller would wait twice as long as one call may
// take.
bool may_ask_again(const Op& op, const Store& store, Duration took) {
  return got_no_answer(op) && took < store.time_limit() / 10;
}

Op renewal_of(const Op& claim) {
  return {.verb = Verb::renew, .id = claim.id, .nonce = claim.nonce, .terms = claim.terms};
}

// If the renewal answers `lost`, another owner has the claim. If it failed or came too late, the claim counts as
// failed, and may still exist.
void judge_renewal(Op& claim, const Op& renewal, Duration took) {
  if (renewal.status == OpStatus::lost) {
    claim.verdict = Verdict::in_flight;
    sometimes<"claim: taken over before it is used">();
  } else if (renewal.status == OpStatus::failed || too_long_for_lease(took, claim.terms.lease)) {
    answer_failed(claim, StoreFault::unavailable, "the lease of the claim could not be renewed in time");
    sometimes<"claim: too late to be kept">();
  } else {
    claim.record->lease_until = saturating_add(renewal.now, claim.terms.lease);
  }
}

}  // namespace

Op* ClaimSteps::next(const Store& store, Time now) {
  switch (stage_) {
    case Stage::unasked:
      stage_ = Stage::asked;
      result_.asked = result_.held_since = now;
      return &claim_;
    case Stage::asked:
      stage_ = Stage::answered;
      unanswered_ = got_no_answer(claim_);
      if (may_ask_again(claim_, store, now - result_.asked)) {
        sometimes<"claim: sent again after no answer">();
        return &claim_;
      }
      [[fallthrough]];
    case Stage::answered:
      if (hold_ == Hold::later || !may_have_lapsed(claim_, now - result_.held_since)) return decide();
      stage_ = Stage::renewed;
      sometimes<"claim: renewed before it is used">();
      result_.held_since = now;
      renewal_ = renewal_of(claim_);
      return &*renewal_;
    case Stage::renewed:
      result_.overtaken = renewal_->status == OpStatus::lost;
      judge_renewal(claim_, *renewal_, now - result_.held_since);
      return decide();
    case Stage::decided: return nullptr;
  }
  return nullptr;
}

Op* ClaimSteps::decide() {
  stage_ = Stage::decided;
  if (claim_.status == OpStatus::failed) {
    if (unanswered_ || renewal_) result_.stands = Stands::perhaps;
  } else if (is_granted(claim_)) {
    result_.stands = Stands::yes;
  } else if (unanswered_ && !renewal_) {
    result_.stands = Stands::perhaps;  // the first one may still arrive
    sometimes<"claim: refused while its first copy may still arrive">();
  }
  return nullptr;
}

void LeaseSteps::start(const Op& claim, Time held_since, const Executions::Entry* work) {
  op_ = renewal_of(claim);
  first_ = claim.nonce;
  asked_at_ = held_since;
  work_ = work;
  lost_ = false;
}

void LeaseSteps::start_unclaimed(const Op& failed, Time now, const Executions::Entry& work) {
  start(failed, now, &work);
  lost_ = true;
}

Duration LeaseSteps::first(Time now) const {
  const Duration elapsed = now - asked_at_;
  if (elapsed < Duration::zero()) {  // the clock was set back: the elapsed time is unknown
    sometimes<"lease: clock set back since the claim">();
    return Duration::zero();
  }
  return std::max(every() - elapsed, Duration::zero());
}

Op* LeaseSteps::due(Time now) {
  if (take_handed(op_, work_) == NewerClaim::taken) {
    sometimes<"lease: a newer claim was handed over">(!lost_);
    sometimes<"lease: a newer claim was handed over after the loss">(lost_);
    lost_ = false;
  }
  if (lost_) return nullptr;
  asking_at_ = now;
  return &op_;
}

// A lost claim stays lost unless a newer one is handed over; recording the outcome will report it.
void LeaseSteps::answered(const Op& renewal) {
  lost_ = renewal.status == OpStatus::lost;
  sometimes<"lease: renewal refused as lost">(lost_);
  sometimes<"lease: renewal failed">(renewal.status == OpStatus::failed);
  if (renewal.status == OpStatus::done) asked_at_ = asking_at_;
}

void LeaseSteps::renewed(Time asked) {
  asked_at_ = std::max(asked_at_, asked);
}

bool LeaseSteps::holds_first(Time now) const {
  const Duration since = now - asked_at_;
  return !lost_ && op_.nonce == first_ && since >= Duration::zero() && since < op_.terms.lease;
}

Patience patience_for_end(const Op& end, Stands claim, Shared shared) {
  const bool only_this_process = shared == Shared::no && end.terms.owner == Owner::process;
  const Time expires = saturating_add(Time(end.terms.ttl), end.terms.lease);
  return {.limit = only_this_process ? Duration::max() : expires.time_since_epoch(),
          .on_its_way = shared == Shared::yes && claim == Stands::perhaps ? latest_arrival : Duration::zero()};
}

namespace {

// Retrying is no use: the store is full, or earlier chunks are missing and must be appended first.
bool is_refused_append(const Op& op) {
  if (op.verb != Verb::append || op.status != OpStatus::failed) return false;
  return op.fault == StoreFault::full || op.fault == StoreFault::no_chunks;
}

}  // namespace

EndSteps::EndSteps(Op& end, const Patience& patience, const Executions::Entry* work)
    : end_(end), patience_(patience), work_(work), backoff_(first_end_retry, slowest_late_retry) {
  take_handed(end_, work_);
}

std::optional<Duration> EndSteps::first(const Store& store) {
  answer_failed(end_, StoreFault::unavailable, "not asked yet");
  return again(store, Duration::zero());
}

std::optional<Duration> EndSteps::again(const Store& store, Duration since) {
  const bool lost = end_.status == OpStatus::lost;
  if (lost && take_handed(end_, work_) == NewerClaim::taken) {
    sometimes<"end: repeated under a claim that was handed over">();
    return Duration::zero();
  }
  const bool claimed_by_other = end_.verb == Verb::claim && end_.verdict == Verdict::in_flight;
  if (end_.status == OpStatus::done && !claimed_by_other) return std::nullopt;
  if (is_refused_append(end_)) {
    sometimes<"end: append refused by a full store">(end_.fault == StoreFault::full);
    sometimes<"end: append refused after a gap">(end_.fault == StoreFault::no_chunks);
    return std::nullopt;
  }
  if (lost) {
    not_there_ += pause_;
    if (not_there_ >= patience_.on_its_way) return std::nullopt;
    sometimes<"end: waits for a claim that may still arrive">();
  }
  waited_ = std::max(waited_, since);
  sometimes<"end: store failed for good">(store.failed_for_good());
  sometimes<"end: given up">(patience_.limit > Duration::zero() && waited_ >= patience_.limit);
  if (waited_ >= patience_.limit || store.failed_for_good()) return std::nullopt;
  pause_ = backoff_.next(!lost && waited_ < early ? slowest_early_retry : slowest_late_retry);
  waited_ += pause_;
  return pause_;
}

Standing standing_of(const Op& lookup, const Nonce& nonce) {
  if (lookup.status != OpStatus::done) return Standing::unseen;
  if (!lookup.record) return Standing::nothing;
  if (lookup.record->nonce == released_nonce(nonce)) return Standing::released;
  if (lookup.record->nonce != nonce) return Standing::taken_over;
  switch (lookup.record->state) {
    case State::started: return Standing::started;
    case State::succeeded: return Standing::succeeded;
    case State::failed: return Standing::failed;
    case State::unknown: return Standing::unknown;
    case State::tombstone: return Standing::expired;
  }
  return Standing::unseen;
}

bool owner_works(const Op& look) {
  return look.record && look.record->state == State::started && look.now < look.record->lease_until;
}

bool another_outcome_stands(const Op& finish) {
  const OutcomeBytes stands = finish.record ? finish.record->outcome : nullptr;
  if (stands == nullptr || stands == finish.outcome) return false;
  return finish.outcome == nullptr || *stands != *finish.outcome;
}

NewerClaim take_handed(Op& op, const Executions::Entry* work) {
  const std::optional<Nonce> handed = work == nullptr ? std::nullopt : work->handed();
  if (!handed || *handed == op.nonce) return NewerClaim::none;
  op.nonce = *handed;
  return NewerClaim::taken;
}

Op end_of(const Op& claim, Verb verb, const Nonce& nonce) {
  return {.verb = verb, .id = claim.id, .nonce = nonce, .terms = claim.terms, .final_state = State::unknown};
}

}  // namespace once::store
