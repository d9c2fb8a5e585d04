// Asynchronous calls: the steps of engine.cpp and claim.cpp as tasks on the guard's own loop.
#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "guard/held.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

constexpr Duration longest_async_wait = 24h;

// Exceptions of callbacks are ignored.
template <class T>
void run_then(Then<T>& then, T result) {
  Thrown dropped;
  caught([&] { then(std::move(result)); }, dropped);
}

}  // namespace

void Engine::claim_async(Request request, Then<Claimed> then, std::stop_token stop) {
  Claimed claimed;
  if (forked(claimed.outcome)) return run_then(then, std::move(claimed));
  loop_.start(claim_on_loop(weak_from_this().lock(), std::move(request), std::move(then), std::move(stop)));
}

Task<void> Engine::claim_on_loop([[maybe_unused]] std::shared_ptr<Engine> alive, Request request, Then<Claimed> then,
                                 std::stop_token stop) {
  Claimed claimed;
  Observation observation(observe_, Observed::Call::claim, &request);
  std::optional<Op> op = read_claim(request, stop, claimed.outcome);
  if (op) {
    Executions::Entry entry(executions_);
    Claimant claimant = claimant_on_loop();
    const ClaimResult result = co_await claim_or_wait_on_loop(claimant, *op, request.wait, entry, stop);
    const Answered answered{.request = request, .op = *op, .result = result, .stop = stop};
    conclude_claim(answered, claimed);
  }
  observe_claimed(claimed, observation);
  run_then(then, std::move(claimed));
}

Task<ClaimResult> Engine::claim_or_wait_on_loop(Claimant& claimant, Op& op, Duration wait, Executions::Entry& work,
                                                const std::stop_token& stop) {
  const SystemClock real_time;  // independent of the store's clock
  const OwnerWaitPorts ports{.store = backing_->lanes(), .waiters = waiters_, .home = loop_, .clock = real_time};
  OwnerWait owner(ports, std::min(wait, longest_async_wait));
  StopPresence presence(stop);
  const std::stop_callback wake(stop, [this, &op] { notify_waiting(op.id); });
  while (true) {
    const ClaimResult claimed = co_await claimant.claim(op);
    if (op.status == OpStatus::failed && claimed.stands == Stands::perhaps) claimant.take_back_later(op);
    if (claimed.stands == Stands::yes) {
      const Executions::Entered how = co_await claimant.enter(op, work);
      entered(how, op);
    }
    const bool in_flight = op.status == OpStatus::done && op.verdict == Verdict::in_flight;
    if (!in_flight || wait <= Duration::zero()) co_return claimed;
    Op seen;
    const WaitEnd end = co_await owner.wait(op.id, &presence, seen);
    if (end == WaitEnd::limit || end == WaitEnd::left) co_return claimed;
  }
}

void Engine::succeed_async(std::shared_ptr<Held> held, std::string value, std::string media_type,
                           Then<Outcome<std::string>> then) {
  Outcome<std::string> outcome;
  if (forked(outcome)) return run_then(then, std::move(outcome));
  loop_.start(succeed_on_loop(std::move(held), std::move(value), std::move(media_type), std::move(then)));
}

Task<void> Engine::succeed_on_loop(std::shared_ptr<Held> held, std::string value, std::string media_type,
                                   Then<Outcome<std::string>> then) {
  Observation observation(observe_, Observed::Call::succeed);
  Claimant claimant = claimant_on_loop();
  Op op = held->success(value, media_type);
  co_await claimant.end(op, held->lease_length);
  notify_waiting(op.id);
  observation.recorded();
  run_then(then, held->succeeded(op, std::move(value), observation));
}

void Engine::fail_async(std::shared_ptr<Held> held, Then<EndResult> then) {
  OutcomeFacts facts;
  if (forked(facts)) return run_then(then, EndResult{.status = EndStatus::forked, .detail = std::move(facts.detail)});
  loop_.start(fail_on_loop(std::move(held), std::move(then)));
}

Task<void> Engine::fail_on_loop(std::shared_ptr<Held> held, Then<EndResult> then) {
  if (held->over == Held::Over::failed) {
    run_then(then, EndResult());
    co_return;
  }
  Observation observation(observe_, Observed::Call::fail);
  Claimant claimant = claimant_on_loop();
  Op op = held->op(Verb::finish);
  op.final_state = State::failed;
  co_await claimant.end(op, held->lease_length);
  notify_waiting(op.id);
  observation.recorded();
  run_then(then, held->failed(op, observation));
}

void Engine::release_async(std::shared_ptr<Held> held, Then<EndResult> then) {
  OutcomeFacts facts;
  if (forked(facts)) return run_then(then, EndResult{.status = EndStatus::forked, .detail = std::move(facts.detail)});
  loop_.start(release_on_loop(std::move(held), std::move(then)));
}

Task<void> Engine::release_on_loop(std::shared_ptr<Held> held, Then<EndResult> then) {
  if (held->over == Held::Over::released) {
    run_then(then, EndResult());
    co_return;
  }
  Claimant claimant = claimant_on_loop();
  Op op = held->op(Verb::release);
  co_await claimant.release(op);
  notify_waiting(op.id);
  run_then(then, held->released(op));
}

void Guard::claim_async(Request request, Then<Claimed> then, std::stop_token stop) {
  engine_->claim_async(std::move(request), std::move(then), std::move(stop));
}

void Claim::succeed_async(std::string value, std::string media_type, Then<Outcome<std::string>> then) {
  held_->engine.succeed_async(held_, std::move(value), std::move(media_type), std::move(then));
}

void Claim::fail_async(Then<EndResult> then) {
  held_->engine.fail_async(held_, std::move(then));
}

void Claim::release_async(Then<EndResult> then) {
  held_->engine.release_async(held_, std::move(then));
}

}  // namespace once::guard
