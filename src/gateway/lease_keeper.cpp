#include "gateway/lease_keeper.hpp"

#include "base/bug.hpp"

namespace once {

namespace {

// Two renewals may be lost before the lease is.
constexpr int renewals_per_lease = 3;

}  // namespace

Task<void> hold_late_claim(Op& claim, Time asked, Lanes& store, Executor& home, const Clock& clock) {
  if (!may_have_lapsed(claim, clock.now() - asked)) co_return;
  Op renewal = renewal_of(claim);
  const Time renewed = clock.now();
  co_await store.run(renewal, home);
  judge_renewal(claim, renewal, clock.now() - renewed);
}

void LeaseKeeper::start(const Op& claim) {
  op_.verb = Verb::renew;
  op_.id = claim.id;
  op_.nonce = claim.nonce;
  op_.terms = claim.terms;
  if (planted(Bug::lease_not_renewed)) return;
  home_.arm(*this, op_.terms.lease / renewals_per_lease);
}

Task<void> LeaseKeeper::renew() {
  renewing_ = true;
  co_await store_.run(op_, home_);
  renewing_ = false;
  if (op_.status == OpStatus::done) metrics_.leases_renewed.add();
  if (op_.status == OpStatus::lost) metrics_.renewals_lost.add();
  if (op_.status == OpStatus::failed) {
    metrics_.renewals_failed.add();
    metrics_.store_errors.add();
  }
  if (stopped_) {
    stopped_.resume();
    co_return;
  }
  // A lost claim stays lost: recording the outcome will say so. A store that did not answer is asked again.
  if (op_.status != OpStatus::lost) home_.arm(*this, op_.terms.lease / renewals_per_lease);
}

}  // namespace once
