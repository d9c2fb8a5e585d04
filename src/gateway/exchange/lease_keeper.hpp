// Renews the lease of a claim while its request is at the backend, for as long as that takes. Used only with shared
// stores: in the others the owner is the process and claims need no renewal. The decisions are in
// store/claim_steps.hpp.
#pragma once

#include "base/clock.hpp"
#include "base/event.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/metrics.hpp"
#include "store/claim_steps.hpp"
#include "store/lane.hpp"

namespace once::gateway {

class LeaseKeeper final : public SendPermit, private Timer {
 public:
  LeaseKeeper(Lanes& store, Executor& home, const Clock& clock, Metrics& metrics)
      : store_(store), home_(home), clock_(clock), metrics_(metrics) {
    fire = [](Timer& timer) {
      auto& self = static_cast<LeaseKeeper&>(timer);
      self.due();
    };
  }
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Starts renewing. With `work`, a newer claim that is handed to that execution is renewed from then on.
  void start(const Op& claim, Time held_since, const Executions::Entry* work = nullptr);
  // The claim failed: starts renewing when a claim is handed to `work`.
  void start_unclaimed(const Op& failed, const Executions::Entry& work);

  // Another component has renewed the lease, with a request sent at `asked`.
  void renewed(Time asked) { lease_.renewed(asked); }

  bool may_send() const override { return lease_.holds_first(clock_.now()); }

  // Stops renewing. Await it before any other op on the claim: a renewal in flight has ended when it resumes.
  Event& stop() {
    home_.disarm(*this);
    stopping_ = true;
    return renewal_ended_;
  }

 private:
  void arm_first();
  void due();
  void arm_next(const Op& renewal);
  Task<void> renew(Op& renewal);
  void count(const Op& renewal);

  Lanes& store_;
  Executor& home_;
  const Clock& clock_;
  Metrics& metrics_;
  LeaseSteps lease_;
  Event renewal_ended_{Event::Initially::set};  // no renewal is in flight
  bool overdue_ = false;                        // the next renewal came due while the last was in flight
  bool stopping_ = false;
};

}  // namespace once::gateway
