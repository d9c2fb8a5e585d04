// The one claim protocol: how an owner claims an operation, ends its claim, and finds out what stands. Exchanges,
// conditional writes, lives, shadow mode, the claims API and the library all use it. What it decides is in
// claim_steps.hpp; this asks the store and waits, as a coroutine. Threads that block for it: guard/blocking.hpp.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/random.hpp"
#include "base/task.hpp"
#include "store/claim_steps.hpp"
#include "store/executions.hpp"
#include "store/lane.hpp"

namespace once::store {

// What a claimant leaves to its surroundings.
class ClaimantHost {
 public:
  // The store did not do this op, for counters and logs. Of a claim that was held too late: the claim.
  virtual void store_failed(const Op& op) = 0;
  // An op that failed will be asked again while its caller waits.
  virtual void retries(const Op& op) = 0;
  // Tries on in the background (EndSteps) until patience_for_end() ends. While a store is down every request leaves a
  // claim that stands perhaps: beyond some limit they may be left to lapse. `kept_alive` lives until then.
  virtual void end_in_background(Op end, Stands claim, std::shared_ptr<const void> kept_alive) = 0;

 protected:
  ~ClaimantHost() = default;
};

struct ClaimantPorts {
  Lanes& store;
  Executor& home;
  const Clock& clock;
  Random& random;
};

class Claimant {
 public:
  // The host outlives this.
  Claimant(const ClaimantPorts& ports, ClaimantHost& host)
      : ports_(ports), host_(host), shared_(ports.store.store().traits().shared == Shared::yes) {}

  // Claims with a new nonce; without a lease where the process is the owner. If another verdict than execute comes
  // while an earlier copy of the claim may still be on its way, that copy is taken back. A claim that failed and stands
  // perhaps is the caller's to end.
  Task<ClaimResult> claim(Op& claim, Hold hold = Hold::at_once);
  // With the nonce that the op has. Its owner may come again with the same nonce, so nothing is taken back.
  Task<ClaimResult> claim_as_named(Op& claim);
  // Before a claim is acted on whose lease was asked for at `since`. Its status or verdict changes if it does not hold.
  Task<ClaimResult> hold(Op& claim, Time since);
  // An op that may be sent twice: asked again if no answer came soon.
  Task<void> ask(Op& op);

  // The claim is ours: enters it. Anything but yes: this process has the operation at work. The claim is that work's
  // now, or, if it is another request's, taken back.
  Task<Executions::Entered> enter(const Op& claim, Executions::Entry& work);
  // After end(). A claim that was handed over too late to be used is nobody's. Nothing was done under it, but it may be
  // all that keeps the operation from being executed again: it is taken back only if the outcome stands, or nothing was
  // done at all.
  Task<void> leave(const Op& ended, Executions::Entry& work);

  // Asks until the store has taken it or `limit` has passed.
  Task<void> end(Op& end, Duration limit, const Executions::Entry* work = nullptr);
  // Asks once; the rest is done in the background.
  Task<void> end_soon(Op& op, const Executions::Entry* work = nullptr);
  // Takes back a claim for an owner that may ask for it twice: done if nobody has claimed since.
  Task<void> release(Op& release);
  // Takes back a claim that failed and stands perhaps, in the background.
  void take_back_later(const Op& claim);
  void end_later(Op end, Stands claim, std::shared_ptr<const void> kept_alive = nullptr);

  // An end was lost. True: this owner's outcome stands all the same, recorded by the backend in its own transaction;
  // the op has its record.
  Task<bool> find_committed(Op& end);

 private:
  enum class Strays : std::uint8_t { left, taken_back };
  Task<ClaimResult> drive(ClaimSteps steps, Op& claim, Strays strays);

  const ClaimantPorts ports_;
  ClaimantHost& host_;
  const bool shared_;
};

}  // namespace once::store
