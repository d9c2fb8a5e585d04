#include "gateway/exchange/exchange_claimant.hpp"

#include <utility>

#include "base/sometimes.hpp"
#include "base/task.hpp"
#include "gateway/exchange/store_failure.hpp"

namespace once::gateway {

namespace {

// The most ops that are retried in the background. It bounds their memory, and the load on a store that comes back.
constexpr std::uint64_t most_unsettled = 10'000;

Task<void> try_on(ExchangePorts ports, Op end, Stands claim, [[maybe_unused]] std::shared_ptr<const void> kept_alive) {
  ports.metrics.unsettled.add();
  const Store& store = ports.store.store();
  EndSteps steps(end, patience_for_end(end, claim, store.traits().shared));
  const Duration began = ports.clock.running();
  std::optional<Duration> pause = steps.first(store);
  while (pause) {
    co_await sleep_for(ports.home, *pause);
    co_await ports.store.run(end, ports.home);
    if (end.status == OpStatus::failed) count_store_failure(ports.metrics, end);
    pause = steps.again(store, ports.clock.running() - began);
  }
  sometimes<"end: came through in the background">(end.status == OpStatus::done);
  ports.metrics.unsettled.subtract();
  ports.waiters.notify(end.id);
}

}  // namespace

void ExchangeClaimant::store_failed(const Op& op) {
  count_store_failure(ports_.metrics, op);
}

void ExchangeClaimant::retries(const Op& op) {
  if (op.verb == Verb::finish) ports_.metrics.record_retries.add();
}

bool ExchangeClaimant::has_room_for(const Op& op) {
  return quota_ == nullptr || quota_->has_room_for(op);
}

void ExchangeClaimant::store_answered(const Op& op) {
  if (quota_ != nullptr) quota_->answered(op);
}

// The limit does not apply to granted claims: there are at most as many as requests were in progress when the store
// went down.
void ExchangeClaimant::end_in_background(Op end, Stands claim, std::shared_ptr<const void> kept_alive) {
  if (claim == Stands::perhaps && ports_.metrics.unsettled.value() >= most_unsettled) return;
  if (claim == Stands::yes && quota_ != nullptr) quota_->ends_later(end);
  spawn(try_on(ports_, std::move(end), claim, std::move(kept_alive)));
}

Task<WaitEnd> owner_ends(OwnerWait& owner, const ExchangePorts& ports, OperationId id, Presence* presence) {
  ports.metrics.waiting.add();
  Op seen;
  const WaitEnd end = co_await owner.wait(id, presence, seen);
  ports.metrics.waiting.subtract();
  if (end == WaitEnd::limit && seen.status != OpStatus::done) co_return WaitEnd::store_failed;
  // Claiming again returns the store's error to the client, unless this process executes the operation.
  const bool claims_again = end == WaitEnd::store_failed && !ports.executions.has(id);
  co_return claims_again ? WaitEnd::owner_ended : end;
}

}  // namespace once::gateway
