#include "gateway/exchange/exchange_claimant.hpp"

#include <utility>

#include "base/task.hpp"
#include "gateway/exchange/store_failure.hpp"

namespace once::gateway {

namespace {

// More would fill the memory, and the store would be met by all of them when it comes back.
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

// A claim that is ours is always ended: there are only as many as there were requests when the store went away.
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
  // Claiming again tells the caller why, unless the operation is at work in this process.
  const bool tells_why = end == WaitEnd::store_failed && !ports.executions.has(id);
  co_return tells_why ? WaitEnd::owner_ended : end;
}

}  // namespace once::gateway
