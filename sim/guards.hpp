// Work of the library: owners that claim a key, work for a while and end it, as guard::Engine does for run() and for
// claims that their holder ends. The claim protocol and the upkeep of leases are production code; a thread that runs
// the upkeep is a timer here. They use their own keys.
#pragma once

#include <coroutine>
#include <list>
#include <memory>

#include "base/random.hpp"
#include "base/task.hpp"
#include "guard/claim_upkeep.hpp"
#include "sim/history.hpp"
#include "sim/world.hpp"
#include "store/claimant.hpp"
#include "store/lane.hpp"
#include "store/owner_wait.hpp"

namespace once::sim {

class Guards final : private ClaimantHost, private Timer {
 public:
  struct Ports {
    World& world;
    History& history;
    Lanes& lanes;
    Waiters& waiters;
    Executions& executions;
    Executor& home;
    const Clock& clock;
    Random& random;
  };
  explicit Guards(const Ports& ports);
  Guards(const Guards&) = delete;
  Guards& operator=(const Guards&) = delete;

  // A call for this work. Every second one is claimed for a holder, who may drop it while the process lives.
  void call(unsigned work);
  // The process was killed: its coroutines have no further effect.
  void cut_off();

 private:
  struct Call {
    Call(Executions& executions, unsigned of) : work(of), entry(executions) {}

    const unsigned work;
    Op op;
    Executions::Entry entry;
    guard::Lease lease;
    LeaseSteps steps;
    bool works = false;
  };
  struct Round;

  bool is_held(const Call& call) const { return call.work % 2 == 1; }
  bool has_lease(const Call& call) const { return shared_ || is_held(call); }
  void draw_terms(Op& op) const;
  Task<void> run(Call& call, Duration wait);
  Task<ClaimResult> claim_or_wait(Call& call, Duration wait);
  Task<void> work_on(Call& call, const ClaimResult& claimed);
  Task<void> end(Call& call, bool told);
  Task<void> finish(Call& call, State state);
  void notes_end_of_work(Call& call);

  void store_failed(const Op& /*op*/) override {}
  void retries(const Op& /*op*/) override {}
  void end_in_background(Op end, Stands claim, std::shared_ptr<const void> kept_alive) override;

  Duration running() const { return ports_.clock.running(); }
  void wake();
  void due();
  Task<void> run_round(std::shared_ptr<Round> round);
  Task<void> run_one(Op& op, std::shared_ptr<Round> round);

  const Ports ports_;
  const bool shared_;
  Claimant claimant_;
  guard::ClaimUpkeep upkeep_;
  std::list<Call> calls_;  // kept until the process ends, because requests are distinguished by their address
  bool busy_ = false;      // a round of upkeep is under way
  bool cut_off_ = false;
};

}  // namespace once::sim
