// Claims whose answer came late. Lanes and drivers send a claim again inside of one call, and an answer may be held up
// on its way, so a claim can be granted to a caller whose lease is over by then: somebody else may have taken it. Every
// caller measures how long the call took, and renews such a claim before it acts on it.
#pragma once

#include "store/store.hpp"

namespace once {

// Whether so much time is too much to rely on what is left of a lease. A clock that was set back says nothing of how
// long it took.
inline bool too_long_for_lease(Duration took, Duration lease) {
  return took < Duration::zero() || took >= lease / 2;
}

// `took`: by the caller's own clock, from before the claim was asked for the first time until its answer was here.
inline bool may_have_lapsed(const Op& claim, Duration took) {
  if (claim.status != OpStatus::done || claim.verdict != Verdict::execute) return false;
  if (claim.record->lease_until == Time::max()) return false;  // the owner is the process
  return claim.record->lease_until <= claim.now || too_long_for_lease(took, claim.terms.lease);
}

// Whether an op that got no answer is to be sent again, so long after it was asked for. Not when the store had its
// time: the caller would wait for twice as long as one call may take.
inline bool may_ask_again(const Op& op, const Store& store, Duration took) {
  const bool unanswered = op.status == OpStatus::failed && op.fault == StoreFault::unavailable;
  return unanswered && took < store.time_limit() / 10;
}

inline Op renewal_of(const Op& claim) {
  return {.verb = Verb::renew, .id = claim.id, .nonce = claim.nonce, .terms = claim.terms};
}

// What the claim has come to after its renewal, which took so long. One that was lost is somebody else's. One that
// could not be renewed in time has failed, and may still stand in the store.
inline void judge_renewal(Op& claim, const Op& renewal, Duration took) {
  if (renewal.status == OpStatus::lost) {
    claim.verdict = Verdict::in_flight;
  } else if (renewal.status == OpStatus::failed || too_long_for_lease(took, claim.terms.lease)) {
    answer_failed(claim, StoreFault::unavailable, "the claim came too late to be kept");
  }
}

}  // namespace once
