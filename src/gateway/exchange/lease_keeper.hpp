// Renews a claim's lease while its owner is at the backend, however long that takes. Only for stores that are shared:
// in the others the owner is the process and nothing needs renewing.
#pragma once

#include <algorithm>
#include <coroutine>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/metrics.hpp"
#include "store/executions.hpp"
#include "store/lane.hpp"
#include "store/late_claim.hpp"

namespace once {

// After every claim that will be acted on, asked for the first time at `asked`: one whose lease may be over is renewed.
// If it is not ours any more it is in flight. If nobody knows in time it has failed, and may still stand in the store.
// Returns when its lease was asked for, the last time.
Task<Time> hold_late_claim(Op& claim, Time asked, Lanes& store, Executor& home, const Clock& clock);

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

  // `took`: how long ago the claim was asked for. Its lease may have begun then. With an entry, a claim that is handed
  // to that execution is renewed from then on.
  void start(const Op& claim, Duration took, const Executions::Entry* entry = nullptr);
  // There is nothing to renew until a claim is handed over.
  void start_unclaimed(const Op& failed, const Executions::Entry& entry);

  // Somebody else has renewed it, and asked for that then.
  void renewed(Time asked) { asked_at_ = std::max(asked_at_, asked); }

  // The claim that it was started with has not been lost, and its lease has been renewed in time. What was handed over
  // since is for a request that was sent.
  bool may_send() const override;

  // Awaited before anything else is said about the claim: a renewal on its way has arrived when it resumes.
  LeaseKeeper& stop() {
    home_.disarm(*this);
    return *this;
  }
  bool await_ready() const noexcept { return !renewing_; }
  void await_suspend(std::coroutine_handle<> caller) { stopped_ = caller; }
  void await_resume() noexcept { stopped_ = nullptr; }

 private:
  void due();
  void take_handed();
  Task<void> renew();

  Lanes& store_;
  Executor& home_;
  const Clock& clock_;
  Metrics& metrics_;
  Op op_;
  Nonce first_{};  // the claim that it was started with
  Time asked_at_;  // for the last renewal of it that was done
  const Executions::Entry* entry_ = nullptr;
  bool lost_ = false;  // the claim at hand is not ours
  bool renewing_ = false;
  bool overdue_ = false;  // the next renewal was due while the last one was on its way
  std::coroutine_handle<> stopped_;
};

}  // namespace once
