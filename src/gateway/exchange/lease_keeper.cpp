#include "gateway/exchange/lease_keeper.hpp"

#include "base/sometimes.hpp"
#include "gateway/exchange/store_failure.hpp"

namespace once::gateway {

void LeaseKeeper::start(const Op& claim, Time held_since, const Executions::Entry* work) {
  lease_.start(claim, held_since, work);
  arm_first();
}

void LeaseKeeper::start_unclaimed(const Op& failed, const Executions::Entry& work) {
  lease_.start_unclaimed(failed, clock_.now(), work);
  arm_first();
}

void LeaseKeeper::arm_first() {
  stopping_ = false;
  home_.arm(*this, lease_.first(clock_.now()));
}

void LeaseKeeper::due() {
  if (!renewal_ended_.is_set()) {
    sometimes<"lease: a renewal takes until the next one is due">();
    overdue_ = true;
    return;
  }
  home_.arm(*this, lease_.every());  // counted from now, however long this renewal takes
  Op* const renewal = lease_.due(clock_.now());
  if (renewal != nullptr) spawn(renew(*renewal));
}

Task<void> LeaseKeeper::renew(Op& renewal) {
  renewal_ended_.clear();
  overdue_ = false;
  co_await store_.run(renewal, home_);
  lease_.answered(renewal);
  count(renewal);
  sometimes<"lease: the backend answered during a renewal">(stopping_);
  if (!stopping_) arm_next(renewal);
  renewal_ended_.set();
}

void LeaseKeeper::arm_next(const Op& renewal) {
  if (lease_.over()) {
    home_.disarm(*this);
  } else if (renewal.status == OpStatus::failed || overdue_) {
    home_.arm(*this, lease_.soon());
  }
}

void LeaseKeeper::count(const Op& renewal) {
  switch (renewal.status) {
    case OpStatus::done: metrics_.leases_renewed.add(); return;
    case OpStatus::lost: metrics_.renewals_lost.add(); return;
    case OpStatus::failed:
      metrics_.renewals_failed.add();
      count_store_failure(metrics_, renewal);
      return;
  }
}

}  // namespace once::gateway
