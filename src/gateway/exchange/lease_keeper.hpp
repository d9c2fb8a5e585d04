// Renews a claim's lease while its owner is at the backend, however long that takes. Only for stores that are shared:
// in the others the owner is the process and nothing needs renewing. What is decided is in store/claim_steps.hpp.
#pragma once

#include <coroutine>

#include "base/clock.hpp"
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

  // With an entry, a claim that is handed to that execution is renewed from then on.
  void start(const Op& claim, Time held_since, const Executions::Entry* work = nullptr);
  // There is nothing to renew until a claim is handed over.
  void start_unclaimed(const Op& failed, const Executions::Entry& work);

  // Somebody else has renewed it, and asked for that then.
  void renewed(Time asked) { lease_.renewed(asked); }

  bool may_send() const override { return lease_.holds_first(clock_.now()); }

  // Awaited before anything else is said about the claim: a renewal on its way has arrived when it resumes.
  LeaseKeeper& stop() {
    home_.disarm(*this);
    return *this;
  }
  bool await_ready() const noexcept { return !renewing_; }
  void await_suspend(std::coroutine_handle<> caller) { stopped_ = caller; }
  void await_resume() noexcept { stopped_ = nullptr; }

 private:
  void arm_first();
  void due();
  Task<void> renew(Op& renewal);
  void count(const Op& renewal);

  Lanes& store_;
  Executor& home_;
  const Clock& clock_;
  Metrics& metrics_;
  LeaseSteps lease_;
  bool renewing_ = false;
  bool overdue_ = false;  // the next renewal was due while the last one was on its way
  std::coroutine_handle<> stopped_;
};

}  // namespace once::gateway
