#include "sim/guards.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr unsigned first_work = 2000;  // in the history; operations of clients and streams have lower numbers

OperationId work_id(unsigned work) {
  OperationId id;
  id.bytes.fill(0x6a);
  id.bytes[3] = id.bytes[4] = static_cast<std::uint8_t>(work);  // so that the name and the shard differ, too
  return id;
}

}  // namespace

// The ops of upkeep that are due together, and the batch that is at the store.
struct Guards::Round {
  bool await_ready() const noexcept { return left == 0; }
  void await_suspend(std::coroutine_handle<> caller) noexcept { waits = caller; }
  void await_resume() const noexcept {}

  guard::ClaimUpkeep::Due due;
  std::size_t left = 0;
  std::coroutine_handle<> waits;
};

Guards::Guards(const Ports& ports)
    : ports_(ports),
      shared_(ports.lanes.store().traits().shared == Shared::yes),
      claimant_({.store = ports.lanes, .home = ports.home, .clock = ports.clock, .random = ports.random}, *this),
      upkeep_(ports.lanes.store(), ports.clock) {
  fire = [](Timer& timer) { static_cast<Guards&>(timer).due(); };
}

void Guards::call(unsigned work) {
  Call& call = calls_.emplace_back(ports_.executions, work);
  draw_terms(call.op);
  call.op.id = work_id(work);
  if (is_held(call)) call.op.terms.owner = Owner::outside;
  const Duration wait = ports_.world.draw.one_in(2) ? 0ms : ports_.world.draw.between(100ms, 5s);
  spawn(run(call, wait));
}

void Guards::cut_off() {
  cut_off_ = true;
  for (Call& call : calls_) notes_end_of_work(call);
}

void Guards::draw_terms(Op& op) const {
  Draw& draw = ports_.world.draw;
  op.terms = {.on_unknown = draw.one_of({OnUnknown::retry, OnUnknown::takeover, OnUnknown::hold}),
              .takeover_after = draw.between(1s, 10s),
              .lease = draw.one_of({Duration(2s), Duration(9s), Duration(30s)}),
              .ttl = draw.one_of({Duration(20s), Duration(1h)})};
}

Task<void> Guards::run(Call& call, Duration wait) {
  const ClaimResult claimed = co_await claim_or_wait(call, wait);
  if (cut_off_ || call.op.status != OpStatus::done || call.op.verdict != Verdict::execute) co_return;
  co_await work_on(call, claimed);
}

// Does the same as Engine::claim_or_wait(). The entry of a holder only shows whether a call of run() is executing.
Task<ClaimResult> Guards::claim_or_wait(Call& call, Duration wait) {
  Op& op = call.op;
  OwnerWait owner({.store = ports_.lanes, .waiters = ports_.waiters, .home = ports_.home, .clock = ports_.clock}, wait);
  while (true) {
    const ClaimResult claimed = co_await claimant_.claim(op);
    if (op.status == OpStatus::failed && claimed.stands == Stands::perhaps) claimant_.take_back_later(op);
    if (claimed.stands == Stands::yes) {
      const Executions::Entered entered = co_await claimant_.enter(op, call.entry);
      if (entered != Executions::Entered::yes) op.verdict = Verdict::in_flight;
      if (is_held(call)) call.entry.leave();
    }
    const bool in_flight = op.status == OpStatus::done && op.verdict == Verdict::in_flight;
    if (!in_flight || wait == 0ms || cut_off_) co_return claimed;
    Op seen;
    const WaitEnd end = co_await owner.wait(op.id, nullptr, seen);
    if (end != WaitEnd::owner_ended || cut_off_) co_return claimed;
  }
}

Task<void> Guards::work_on(Call& call, const ClaimResult& claimed) {
  Draw& draw = ports_.world.draw;
  Op& op = call.op;
  const Asked asked{.operation = first_work + call.work};
  if (!is_held(call)) {
    ports_.history.goes_to_backend(op.id, op.nonce, ports_.home, ports_.history.moment());
  } else if (shared_) {
    ports_.history.works(op.nonce);
  }
  const unsigned execution = ports_.history.executed(asked, op.nonce, static_cast<std::uint64_t>(op.record->fence));
  call.works = true;
  call.lease.id = op.id;
  call.lease.nonce = op.nonce;
  call.steps.start(op, claimed.held_since, is_held(call) ? nullptr : &call.entry);
  std::uint64_t serial = 0;
  if (has_lease(call)) {
    const bool wakes = upkeep_.is_next(call.steps, running()) == guard::ClaimUpkeep::Wake::yes;
    serial = upkeep_.keep(call.lease, call.steps, running());
    if (wakes || !armed()) wake();
  }
  // The work regularly checks whether it has lost its claim.
  const Duration lease = std::min<Duration>(op.terms.lease, 30s);  // it has no end if the owner is the process
  const Duration length = draw.one_in(3) ? draw.below(3 * lease) : draw.below(Duration(2s));
  const Duration step = draw.between(100ms, 2s);
  for (Duration done{}; done < length && !cut_off_; done += step) {
    if (call.lease.lost.load(std::memory_order_relaxed) && draw.one_in(2)) break;
    co_await sleep_for(ports_.home, std::min(step, length - done));
  }
  if (has_lease(call)) upkeep_.let_go(serial);
  notes_end_of_work(call);
  if (cut_off_) co_return;
  // Some holders drop their claim without ending it.
  const bool dropped = is_held(call) && draw.one_in(6);
  if (dropped) co_return;
  const bool told = !draw.one_in(5);
  if (told) ports_.history.response_received(execution, 200);
  co_await end(call, told);
}

void Guards::notes_end_of_work(Call& call) {
  if (std::exchange(call.works, false)) ports_.history.back_from_backend(call.op.nonce);
}

Task<void> Guards::end(Call& call, bool told) {
  Draw& draw = ports_.world.draw;
  if (!told) {  // the work ended its thread: Engine::leave_unknown()
    const Nonce newest = call.entry.leave().value_or(call.op.nonce);
    claimant_.end_later(end_of(call.op, Verb::finish, newest), Stands::yes);
    co_return;
  }
  if (is_held(call) && draw.one_in(4)) {
    call.op.record.reset();
    co_await claimant_.release(call.op);
    // The answer of a release may be lost, so half of the callers repeat it.
    if (call.op.status == OpStatus::failed && draw.one_in(2)) co_await claimant_.release(call.op);
    ports_.waiters.notify(call.op.id);
    co_return;
  }
  const State state = draw.one_in(3) ? State::failed : State::succeeded;
  co_await finish(call, state);
}

// Does the same as Engine::finish().
Task<void> Guards::finish(Call& call, State state) {
  Op& op = call.op;
  op.verb = Verb::finish;
  op.final_state = state;
  op.record.reset();
  if (state == State::succeeded) op.outcome = std::make_shared<const std::string>("value of " + short_hex(op.nonce));
  Executions::Entry* const work = is_held(call) ? nullptr : &call.entry;
  co_await claimant_.end(op, op.terms.lease, work);
  if (work != nullptr) {
    if (op.status == OpStatus::failed && !shared_) claimant_.end_later(op, Stands::yes);
    co_await claimant_.leave(op, *work);
  }
  ports_.waiters.notify(op.id);
}

void Guards::end_in_background(Op end, Stands claim, std::shared_ptr<const void> /*kept_alive*/) {
  if (cut_off_) return;
  if (upkeep_.end(std::move(end), claim, running()) == guard::ClaimUpkeep::Wake::yes) wake();
}

// Wakes the upkeep, like the thread of guard::Background: due() runs what is due, then sets a timer for the next.
void Guards::wake() {
  if (!busy_ && !cut_off_) ports_.home.arm(*this, 0ms);
}

void Guards::due() {
  if (cut_off_) return;
  const auto round = std::make_shared<Round>();
  round->due = upkeep_.due(running());
  if (!round->due.empty()) {
    busy_ = true;
    spawn(run_round(round));
    return;
  }
  const auto pause = std::chrono::ceil<Duration>(upkeep_.until_next(running()));
  ports_.home.arm(*this, pause);
}

Task<void> Guards::run_round(std::shared_ptr<Round> round) {
  std::vector<std::vector<Op*>> batches = round->due.batches();
  for (const std::vector<Op*>& batch : batches) {
    round->left = batch.size();
    for (Op* op : batch) spawn(run_one(*op, round));
    co_await *round;
  }
  busy_ = false;
  if (cut_off_) co_return;
  const std::vector<OperationId> over = upkeep_.ended(round->due, running());
  for (const OperationId& id : over) ports_.waiters.notify(id);
  upkeep_.answered(round->due, running());
  due();
}

Task<void> Guards::run_one(Op& op, std::shared_ptr<Round> round) {
  co_await ports_.lanes.run(op, ports_.home);
  if (--round->left == 0 && round->waits) std::exchange(round->waits, nullptr).resume();
}

}  // namespace once::sim
