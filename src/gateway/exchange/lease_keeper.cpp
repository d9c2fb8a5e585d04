#include "gateway/exchange/lease_keeper.hpp"

#include <algorithm>

#include "gateway/exchange/store_failure.hpp"

namespace once {

namespace {

// Two thirds of a lease are left when a renewal sets out.
constexpr int renewals_per_lease = 3;
// One that failed, or took so long that the next is due, is followed soon: as many as fit may be lost before the lease.
constexpr int retries_per_lease = 30;

}  // namespace

Task<Time> hold_late_claim(Op& claim, Time asked, Lanes& store, Executor& home, const Clock& clock) {
  if (!may_have_lapsed(claim, clock.now() - asked)) co_return asked;
  Op renewal = renewal_of(claim);
  const Time renewed = clock.now();
  co_await store.run(renewal, home);
  judge_renewal(claim, renewal, clock.now() - renewed);
  co_return renewed;
}

void LeaseKeeper::start(const Op& claim, Duration took, const Executions::Entry* entry) {
  op_.verb = Verb::renew;
  op_.id = claim.id;
  op_.nonce = claim.nonce;
  op_.terms = claim.terms;
  first_ = claim.nonce;
  asked_at_ = clock_.now() - took;
  entry_ = entry;
  lost_ = false;
  home_.arm(*this, std::max(op_.terms.lease / renewals_per_lease - took, Duration::zero()));
}

void LeaseKeeper::start_unclaimed(const Op& failed, const Executions::Entry& entry) {
  start(failed, Duration::zero(), &entry);
  lost_ = true;
}

bool LeaseKeeper::may_send() const {
  const Duration since = clock_.now() - asked_at_;
  const bool renewed = since >= Duration::zero() && since < op_.terms.lease;
  return !lost_ && op_.nonce == first_ && renewed;
}

void LeaseKeeper::due() {
  if (renewing_) {
    overdue_ = true;
    return;
  }
  take_handed();
  if (lost_) {
    home_.arm(*this, op_.terms.lease / renewals_per_lease);
  } else {
    spawn(renew());
  }
}

void LeaseKeeper::take_handed() {
  if (entry_ == nullptr) return;
  const std::optional<Nonce> handed = entry_->handed();
  if (!handed || *handed == op_.nonce) return;
  op_.nonce = *handed;
  lost_ = false;
}

Task<void> LeaseKeeper::renew() {
  renewing_ = true;
  overdue_ = false;
  home_.arm(*this, op_.terms.lease / renewals_per_lease);  // from now on, however long this one takes
  const Time asked = clock_.now();
  co_await store_.run(op_, home_);
  renewing_ = false;
  if (op_.status == OpStatus::done) {
    metrics_.leases_renewed.add();
    asked_at_ = asked;
  }
  if (op_.status == OpStatus::lost) metrics_.renewals_lost.add();
  if (op_.status == OpStatus::failed) {
    metrics_.renewals_failed.add();
    count_store_failure(metrics_, op_);
  }
  if (stopped_) {
    stopped_.resume();
    co_return;
  }
  // A lost claim stays lost, unless another one is handed over: recording the outcome will say so. A store that did not
  // answer is asked again.
  lost_ = op_.status == OpStatus::lost;
  if (lost_) {
    if (entry_ == nullptr) home_.disarm(*this);
  } else if (op_.status == OpStatus::failed || overdue_) {
    home_.arm(*this, op_.terms.lease / retries_per_lease);
  }
}

}  // namespace once
