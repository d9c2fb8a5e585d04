// What the background of a guard has to do, and when: renew the leases of running work, and end claims that a call
// could not end before it returned. It has no thread, no lock and no clock of its own: background.hpp gives it a
// thread, the simulator virtual time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include "base/clock.hpp"
#include "store/claim_steps.hpp"
#include "store/store.hpp"

namespace once::guard {

// A running owner. It must not move while it is registered.
struct Lease {
  OperationId id;
  Nonce nonce;
  std::atomic<bool> lost = false;
};

class ClaimUpkeep {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  struct Renewal {
    std::uint64_t serial;
    Op op;  // a copy, because the owner may end meanwhile
  };
  struct LateEnd {
    LateEnd(Op the_op, const Patience& patience) : op(std::move(the_op)), steps(op, patience) {}
    Op op;
    EndSteps steps;
    Nanoseconds began{};
    Nanoseconds due{};
  };
  // The ops that are due.
  struct Due {
    std::vector<Renewal> renewals;
    std::list<LateEnd> ends;

    bool empty() const { return renewals.empty() && ends.empty(); }
    // In batches: an operation can have two owners here, an old and a new one, and no batch has it twice.
    std::vector<std::vector<Op*>> batches();
  };
  enum class Wake : std::uint8_t { no, yes };

  // `clock` is the one for leases; `now` in the calls is monotonic.
  ClaimUpkeep(const Store& store, const Clock& clock) : store_(store), clock_(clock) {}

  // Registers a lease. Returns its serial number.
  std::uint64_t keep(Lease& lease, const LeaseSteps& steps, Nanoseconds now);
  // Whether a lease with these steps is due before everything that is registered.
  Wake is_next(const LeaseSteps& steps, Nanoseconds now) const;
  void let_go(std::uint64_t serial) { kept_.erase(serial); }
  // Takes over an end that failed, for retries. no: it will not be retried.
  Wake end(Op end, Stands claim, Nanoseconds now);

  // The time until the next renewal or retry.
  Nanoseconds until_next(Nanoseconds now) const;
  Due due(Nanoseconds now);
  // The ops have been answered. Removes the ends that are over, and returns their operations. Uses only `due`.
  std::vector<OperationId> ended(Due& due, Nanoseconds now) const;
  // Call after ended(): handles the answers of the renewals, and keeps the ends that are left in `due` for the next
  // try.
  void answered(Due& due, Nanoseconds now);

 private:
  struct Kept {
    Lease* lease;
    LeaseSteps steps;
    Nanoseconds due;
  };

  void note(const Renewal& renewal, Nanoseconds now);

  const Store& store_;
  const Clock& clock_;
  std::map<std::uint64_t, Kept> kept_;
  std::uint64_t last_serial_ = 0;
  std::list<LateEnd> ends_;
};

}  // namespace once::guard
