#include "gate/work_call.hpp"

#include <memory>
#include <utility>

#include "base/bytes.hpp"
#include "core/outcome.hpp"
#include "gate/engine.hpp"
#include "guard/engine.hpp"

namespace once::gate {

namespace {

using guard::Reason;

constexpr std::string_view usual_media_type = "application/json";

OutcomeBytes encoded_value(std::string_view value, std::string_view media_type) {
  std::string fields = "Content-Type: ";
  fields.append(media_type.empty() ? usual_media_type : media_type).append("\r\n");
  return std::make_shared<const std::string>(encode({.status = 200, .reason = "OK", .headers = fields, .body = value}));
}

}  // namespace

WorkCall::WorkCall(Engine& engine, guard::Request request, std::uint64_t tag, Completion<ClaimResultOfWork> then)
    : Call(tag),
      engine_(engine),
      request_(std::move(request)),
      op_(engine.operations().read(request_)),
      owner_(owner_wait_ports(engine.ports())),
      lease_(engine.lanes(), engine.loop(), engine.clock(), engine.metrics()),
      loss_(engine.loop()),
      claimed_(std::move(then)) {}

Task<void> WorkCall::run() {
  if (!op_) {
    WorkOutcome outcome;
    outcome.reason = Reason::invalid;
    outcome.detail = op_.error();
    claimed_.complete(std::move(outcome));
    co_return;
  }
  op_->terms.owner = Owner::outside;  // its holder may drop it while the process lives
  const ClaimResult claimed = co_await claim_or_wait();
  const bool is_ours = op_->status == OpStatus::done && op_->verdict == Verdict::execute;
  if (!is_ours) {
    WorkOutcome outcome;
    guard::set_verdict(*op_, guard::reading(outcome.value), outcome);
    if (cancelled()) {
      claimed_.complete(Cancelled());
    } else {
      claimed_.complete(std::move(outcome));
    }
    co_return;
  }
  if (cancelled()) {
    co_await give_back();
    claimed_.complete(Cancelled());
    co_return;
  }
  co_await serve_holder(claimed);
}

Task<ClaimResult> WorkCall::claim_or_wait() {
  owner_.begin(request_.wait);
  ClaimResult claimed;
  bool again = true;
  while (again) {
    claimed = co_await engine_.claimant().claim(*op_);
    if (op_->status == OpStatus::failed && claimed.stands == Stands::perhaps) engine_.claimant().take_back_later(*op_);
    const bool waits = request_.wait > Duration::zero() && !cancelled();
    again = waits && op_->status == OpStatus::done && op_->verdict == Verdict::in_flight;
    if (again) {
      const WaitEnd end = co_await owner_ends(owner_, engine_.ports(), op_->id, this);
      again = end == WaitEnd::owner_ended;
    }
  }
  co_return claimed;
}

void WorkCall::hand_out(const ClaimResult& claimed) {
  auto lost = std::make_shared<std::atomic<bool>>(false);
  lease_.start(*op_, claimed.held_since);
  loss_.start(lease_, lost);
  kept_ = true;
  engine_.note_handed_out();
  ClaimFacts facts{.attempt = static_cast<std::uint32_t>(op_->record->attempt),
                   .fence = static_cast<std::uint64_t>(op_->record->fence),
                   .token = guard::handle_of(op_->id, op_->nonce),
                   .operation = to_hex(op_->id)};
  claimed_.complete(std::make_shared<HeldWork>(engine_.core(), *this, std::move(facts), std::move(lost)));
}

Task<void> WorkCall::give_back() {
  Op op = op_of(Verb::release);
  co_await engine_.claimant().end_soon(op);
  engine_.waiters().notify(op.id);
}

Task<void> WorkCall::serve_holder(const ClaimResult& claimed) {
  hand_out(claimed);
  bool ended = false;
  bool dropped = false;
  while (!dropped) {
    while (orders_.empty()) {
      ordered_.clear();
      co_await ordered_;
    }
    WorkOrder order = std::move(orders_.front());
    orders_.pop_front();
    dropped = order.kind == WorkOrder::Kind::drop;
    if (dropped) continue;
    const ClaimState state = co_await carry_out(order);
    ended = ended || state == ClaimState::ended;
    if (ended && kept_) {
      kept_ = false;
      loss_.stop();
      co_await lease_.stop();
      engine_.waiters().notify(op_->id);
    }
  }
  if (kept_) {
    loss_.stop();
    co_await lease_.stop();
  }
  engine_.note_ended(!ended);
}

void WorkCall::take(WorkOrder order) {
  orders_.push_back(std::move(order));
  ordered_.set();
}

Task<WorkCall::ClaimState> WorkCall::carry_out(WorkOrder& order) {
  WorkOutcome outcome = facts();
  auto state = ClaimState::held;
  switch (order.kind) {
    case WorkOrder::Kind::complete: state = co_await complete(order, outcome); break;
    case WorkOrder::Kind::fail: state = co_await fail(outcome); break;
    case WorkOrder::Kind::release: state = co_await release(outcome); break;
    case WorkOrder::Kind::recorded: state = co_await look_up(outcome); break;
    case WorkOrder::Kind::drop: break;
  }
  engine_.count_work(outcome);
  order.then.complete(std::move(outcome));
  co_return state;
}

Op WorkCall::op_of(Verb verb) const {
  Op op;
  op.verb = verb;
  op.id = op_->id;
  op.nonce = op_->nonce;
  op.terms.ttl = request_.ttl;
  return op;
}

WorkOutcome WorkCall::facts() const {
  WorkOutcome outcome;
  outcome.attempt = static_cast<std::uint32_t>(op_->record->attempt);
  outcome.fence = static_cast<std::uint64_t>(op_->record->fence);
  return outcome;
}

// Renewals continue meanwhile: the store may be down for longer than the lease.
Task<void> WorkCall::finish(Op& op) {
  co_await engine_.claimant().end(op, request_.lease);
}

Task<WorkCall::ClaimState> WorkCall::complete(WorkOrder& order, WorkOutcome& outcome) {
  Op op = op_of(Verb::finish);
  op.final_state = State::succeeded;
  std::optional<std::string> stored = order.value;
  if (!request_.store_only.empty() || !request_.never_store.empty()) {
    stored = guard::sanitise(order.value, {.store_only = request_.store_only, .never_store = request_.never_store});
  }
  const bool kept = stored && stored->size() <= guard::Options().max_value;
  op.body_kept = kept ? core::BodyKept::yes : core::BodyKept::no;
  if (kept) op.outcome = encoded_value(*stored, order.media_type);
  co_await finish(op);
  if (op.status != OpStatus::done) {
    outcome.reason = op.status == OpStatus::lost ? Reason::lost : Reason::not_recorded;
    outcome.detail = std::move(op.error);
    co_return op.status == OpStatus::lost ? ClaimState::ended : ClaimState::held;
  }
  outcome.status = guard::Status::succeeded;
  outcome.value = std::move(order.value);
  if (another_outcome_stands(op)) {
    guard::set_recorded(*op.record, guard::Source::fresh, guard::reading(outcome.value), outcome);
  }
  co_return ClaimState::ended;
}

Task<WorkCall::ClaimState> WorkCall::fail(WorkOutcome& outcome) {
  if (over_ == Over::failed) {
    outcome.reason = Reason::work_failed;
    co_return ClaimState::ended;
  }
  Op op = op_of(Verb::finish);
  op.final_state = State::failed;
  co_await finish(op);
  outcome.detail = std::move(op.error);
  switch (op.status) {
    case OpStatus::done:
      over_ = Over::failed;
      outcome.reason = Reason::work_failed;
      break;
    case OpStatus::lost: outcome.reason = Reason::lost; break;
    case OpStatus::failed: outcome.reason = Reason::not_recorded; break;
  }
  co_return op.status != OpStatus::failed ? ClaimState::ended : ClaimState::held;
}

Task<WorkCall::ClaimState> WorkCall::release(WorkOutcome& outcome) {
  if (over_ == Over::released) co_return ClaimState::ended;  // another owner may have it by now
  Op op = op_of(Verb::release);
  co_await engine_.claimant().release(op);
  if (op.status == OpStatus::failed) {
    guard::set_store_failed(op, outcome);
    co_return ClaimState::held;
  }
  if (op.status == OpStatus::done) over_ = Over::released;
  outcome.reason = op.status == OpStatus::lost ? Reason::lost : Reason::none;
  co_return ClaimState::ended;
}

Task<WorkCall::ClaimState> WorkCall::look_up(WorkOutcome& outcome) {
  Op seen = op_of(Verb::lookup);
  co_await engine_.claimant().ask(seen);
  switch (standing_of(seen, op_->nonce)) {
    case Standing::unseen: guard::set_store_failed(seen, outcome); co_return ClaimState::held;
    case Standing::nothing:
    case Standing::expired:
    case Standing::released:
    case Standing::taken_over: outcome.reason = Reason::lost; co_return ClaimState::held;
    case Standing::failed: outcome.reason = Reason::work_failed; co_return ClaimState::held;
    case Standing::succeeded:
      guard::set_recorded(*seen.record, guard::Source::fresh, guard::reading(outcome.value), outcome);
      co_return ClaimState::ended;
    case Standing::started:
    case Standing::unknown:
      outcome.status = guard::Status::in_progress;
      outcome.reason = Reason::at_work;
      outcome.retry_after = guard::retry_after(seen.record->lease_until, seen.now);
      co_return ClaimState::held;
  }
  co_return ClaimState::held;
}

LookCall::LookCall(Engine& engine, guard::Request request, std::uint64_t tag, Completion<WorkResult> then)
    : Call(tag), engine_(engine), request_(std::move(request)), then_(std::move(then)) {}

Task<void> LookCall::run() {
  WorkOutcome outcome;
  auto op = engine_.operations().read(request_);
  if (!op) {
    outcome.reason = Reason::invalid;
    outcome.detail = std::move(op.error());
    then_.complete(std::move(outcome));
    co_return;
  }
  op->verb = Verb::lookup;
  co_await engine_.claimant().ask(*op);
  guard::set_seen(*op, outcome);
  outcome.absent = op->status == OpStatus::done && !op->record;
  then_.complete(std::move(outcome));
}

}  // namespace once::gate
