#include "gateway/lease_keeper.hpp"

#include <algorithm>

#include "base/bug.hpp"

namespace once {

namespace {

// Two thirds of a lease are left when a renewal sets out.
constexpr int renewals_per_lease = 3;
// One that failed, or took so long that the next is due, is followed soon: as many as fit may be lost before the lease.
constexpr int retries_per_lease = 30;

}  // namespace

Task<void> hold_late_claim(Op& claim, Time asked, Lanes& store, Executor& home, const Clock& clock) {
  if (!may_have_lapsed(claim, clock.now() - asked)) co_return;
  Op renewal = renewal_of(claim);
  const Time renewed = clock.now();
  co_await store.run(renewal, home);
  judge_renewal(claim, renewal, clock.now() - renewed);
}

void LeaseKeeper::start(const Op& claim, Duration took) {
  op_.verb = Verb::renew;
  op_.id = claim.id;
  op_.nonce = claim.nonce;
  op_.terms = claim.terms;
  if (planted(Bug::lease_not_renewed)) return;
  home_.arm(*this, std::max(op_.terms.lease / renewals_per_lease - took, Duration::zero()));
}

void LeaseKeeper::due() {
  if (renewing_) {
    overdue_ = true;
    return;
  }
  spawn(renew());
}

Task<void> LeaseKeeper::renew() {
  renewing_ = true;
  overdue_ = false;
  home_.arm(*this, op_.terms.lease / renewals_per_lease);  // from now on, however long this one takes
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
  if (op_.status == OpStatus::lost) {
    home_.disarm(*this);
  } else if (op_.status == OpStatus::failed || overdue_) {
    home_.arm(*this, op_.terms.lease / retries_per_lease);
  }
}

}  // namespace once
