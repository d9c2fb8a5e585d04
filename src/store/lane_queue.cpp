#include "store/lane_queue.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/sometimes.hpp"

namespace once::store {

namespace {

// How many ops per place in a batch are checked for an id that is not in the batch yet. With ten thousand callers on
// one key, a batch must not check them all.
constexpr std::size_t looks_per_place = 4;
// After this many single ops in a row have failed, the store itself is failing, and the rest keep their answer.
constexpr std::size_t lone_failures_before_giving_up = 3;

bool is_unavailable(const Op& op) {
  return op.status == OpStatus::failed && op.fault == StoreFault::unavailable;
}

// An operator's action that answers `lost` must not have changed anything, but a batch that was delayed may still
// arrive and change the key. So these are never sent twice: their result stays unknown.
bool may_be_sent_twice(const Op& op) {
  return op.verb != Verb::forget && op.verb != Verb::resolve;
}

void execute_one_by_one(Store& store, std::chrono::nanoseconds until, std::span<Op* const> ops) {
  std::size_t failures = 0;
  for (Op* const& op : ops) {
    sometimes<"lane: an operator's action is not sent twice">(!may_be_sent_twice(*op));
    if (!may_be_sent_twice(*op)) continue;
    if (monotonic_now() >= until) return;
    op->error.clear();
    execute_caught(store, {&op, 1}, until);
    // The store refused the op this time, but the result of the failed batch is still unknown.
    sometimes<"lane: refused alone after the batch failed">(op->status == OpStatus::failed && !is_unavailable(*op));
    if (op->status == OpStatus::failed) op->fault = StoreFault::unavailable;
    failures = is_unavailable(*op) ? failures + 1 : 0;
    if (failures == lone_failures_before_giving_up) return;
  }
}

}  // namespace

void LaneQueue::gather() {
  batch_.clear();
  std::size_t looks = most_ops_ * looks_per_place;
  waiting_.take_if([&] { return !batch_.full() && looks-- > 0; },
                   [&](Pending& pending) { return batch_.add(pending); });
}

LaneQueue::Tried LaneQueue::execute(Store& store) {
  const std::span<Op* const> ops = batch_.ops();
  const Duration limit = store.time_limit();
  const std::chrono::nanoseconds until =
      limit == Duration::max() ? std::chrono::nanoseconds::max() : monotonic_now() + limit;
  execute_caught(store, ops, until);
  if (ops.size() <= 1 || !std::ranges::all_of(ops, [](const Op* op) { return is_unavailable(*op); })) {
    return Tried::once;
  }
  if (monotonic_now() >= until) return Tried::once;
  execute_one_by_one(store, until, ops);
  return Tried::again_one_by_one;
}

}  // namespace once::store
