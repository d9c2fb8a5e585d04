// Work that is not a request: claimed by tenant, scope and key or inputs, with the ids and rules of once::Guard and the
// claims API, but without a waiting thread. Its holder ends it.
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <optional>
#include <string>

#include <once/guard.hpp>

#include "base/event.hpp"
#include "base/task.hpp"
#include "gate/call.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/lease_keeper.hpp"
#include "store/claimant.hpp"

namespace once::gate {

class Engine;

class WorkCall final : public Call {
 public:
  WorkCall(Engine& engine, guard::Request request, std::uint64_t tag, Completion<ClaimResultOfWork> then);

  Task<void> run() override;
  // An order of the claim's holder. The last one is a drop.
  void take(WorkOrder order);

 private:
  // How the holder ended it: a repeated end is done, even if another owner has claimed the work since.
  enum class Over : std::uint8_t { no, failed, released };

  Task<ClaimResult> claim_or_wait();
  void hand_out(const ClaimResult& claimed);
  Task<void> give_back();
  Task<void> serve_holder(const ClaimResult& claimed);
  // The state of the claim after an order.
  enum class ClaimState : std::uint8_t { held, ended };
  Task<ClaimState> carry_out(WorkOrder& order);
  Task<ClaimState> complete(WorkOrder& order, WorkOutcome& outcome);
  Task<ClaimState> fail(WorkOutcome& outcome);
  Task<ClaimState> release(WorkOutcome& outcome);
  Task<ClaimState> look_up(WorkOutcome& outcome);
  // Records the end; retries for the length of a lease.
  Task<void> finish(Op& op);
  Op op_of(Verb verb) const;
  WorkOutcome facts() const;

  Engine& engine_;
  const guard::Request request_;
  std::expected<Op, std::string> op_;  // the claim, or the mistake in the request
  OwnerWait owner_;
  LeaseKeeper lease_;
  LossWatch loss_;
  bool kept_ = false;  // the lease is being renewed
  Over over_ = Over::no;
  Completion<ClaimResultOfWork> claimed_;
  std::deque<WorkOrder> orders_;
  Event ordered_;
};

// Looks up work without claiming it.
class LookCall final : public Call {
 public:
  LookCall(Engine& engine, guard::Request request, std::uint64_t tag, Completion<WorkResult> then);

  Task<void> run() override;

 private:
  Engine& engine_;
  const guard::Request request_;
  Completion<WorkResult> then_;
};

}  // namespace once::gate
