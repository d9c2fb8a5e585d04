// The one implementation of the claim protocol: claim an operation, end the claim, find out what is recorded. Used by
// exchanges, conditional writes, lives, shadow mode, the claims API and the library. The decisions are in
// claim_steps.hpp; this class calls the store and waits, as a coroutine. guard/blocking.hpp is for blocking threads.
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

// Whether an owner's outcome is recorded although its own write was lost: then the op has the record.
enum class Committed : std::uint8_t { no, yes };

// What a claimant needs from its owner.
class ClaimantHost {
 public:
  // The store failed this op; for counters and logs. If the renewal of a claim came too late, `op` is the claim.
  virtual void store_failed(const Op& op) = 0;
  // A failed op will be retried while its caller waits.
  virtual void retries(const Op& op) = 0;
  // Whether an op that ends or continues a claim may go to the store; otherwise it fails as full.
  virtual bool has_room_for(const Op& /*op*/) { return true; }
  // The store has answered an op of the claim or a lookup of its record: for accounting of stored bytes.
  virtual void store_answered(const Op& /*op*/) {}
  // Retries in the background (EndSteps) until patience_for_end() is over. While a store is down, every request leaves
  // a claim that may exist: beyond some limit, such claims may be left until their leases end. `kept_alive` is held
  // until then.
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

  // Claims with a new nonce; without a lease if the process is the owner. If the verdict is not execute while an
  // earlier copy of the claim may still be on its way, that copy is released. The caller must end a claim that failed
  // and may exist.
  Task<ClaimResult> claim(Op& claim, Hold hold = Hold::at_once);
  // Claims with the op's own nonce. The owner may repeat such a claim, so nothing is released.
  Task<ClaimResult> claim_as_named(Op& claim);
  // Call before working under a claim whose lease was requested at `since`. Changes status or verdict if the claim was
  // lost.
  Task<ClaimResult> hold(Op& claim, Time since);
  // Runs an op that is safe to repeat: retries if no answer came soon.
  Task<void> ask(Op& op);

  // Registers the execution of a claim that was granted. Anything but yes: this process already executes the operation.
  // That execution gets the claim; if it is for another request, the claim is released.
  Task<Executions::Entered> enter(const Op& claim, Executions::Entry& work);
  // Call after end(). A claim that was handed over too late has no owner. Nothing was executed under it, but it may be
  // all that prevents a second execution: it is released only if the outcome is recorded, or nothing was executed at
  // all.
  Task<void> leave(const Op& ended, Executions::Entry& work);

  // Retries until the store has accepted the op or `limit` has passed.
  Task<void> end(Op& end, Duration limit, const Executions::Entry* work = nullptr);
  // Tries once; further tries are made in the background.
  Task<void> end_soon(Op& op, const Executions::Entry* work = nullptr);
  // Releases a claim for an owner that may repeat the release: done if there was no other claim since.
  Task<void> release(Op& release);
  // Releases a claim that failed and may exist, in the background.
  void take_back_later(const Op& claim);
  void end_later(Op end, Stands claim, std::shared_ptr<const void> kept_alive = nullptr);

  // A write was answered with `lost`. If the store has no record of the operation any more, because it lost its data,
  // claims the operation again for the running work.
  Task<NewerClaim> claim_anew(Op& lost, Executions::Entry& work);

  // Ending the claim was answered with `lost`. Checks whether this owner's outcome is recorded nevertheless, committed
  // by the backend.
  Task<Committed> find_committed(Op& end);

 private:
  enum class Strays : std::uint8_t { left, taken_back };
  Task<ClaimResult> drive(ClaimSteps steps, Op& claim, Strays strays);

  const ClaimantPorts ports_;
  ClaimantHost& host_;
  const bool shared_;
};

}  // namespace once::store
