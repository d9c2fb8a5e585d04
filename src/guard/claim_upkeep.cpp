#include "guard/claim_upkeep.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/sometimes.hpp"

namespace once::guard {

namespace {

// While a store is down, every call leaves a claim that may have been made. Beyond this many they are left to lapse.
constexpr std::size_t most_late_ends = 10'000;
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);

}  // namespace

std::uint64_t ClaimUpkeep::keep(Lease& lease, const LeaseSteps& steps, Nanoseconds now) {
  const Nanoseconds first = steps.first(clock_.now());
  sometimes<"guard: the first renewal is due at once">(first == Nanoseconds::zero());
  kept_.emplace(++last_serial_, Kept{.lease = &lease, .steps = steps, .due = now + first});
  return last_serial_;
}

ClaimUpkeep::Wake ClaimUpkeep::is_next(const LeaseSteps& steps, Nanoseconds now) const {
  const Nanoseconds first = steps.first(clock_.now());
  const bool sooner = first < until_next(now);
  return sooner ? Wake::yes : Wake::no;
}

ClaimUpkeep::Wake ClaimUpkeep::end(Op end, Stands claim, Nanoseconds now) {
  if (claim == Stands::perhaps && ends_.size() >= most_late_ends) return Wake::no;
  const Patience patience = patience_for_end(end, claim, store_.traits().shared);
  LateEnd& late = ends_.emplace_back(std::move(end), patience);
  const auto first = late.steps.first(store_);
  if (!first) {
    ends_.pop_back();
    return Wake::no;
  }
  late.began = now;
  late.due = late.began + *first;
  return Wake::yes;
}

std::chrono::nanoseconds ClaimUpkeep::until_next(Nanoseconds now) const {
  Nanoseconds next = now + longest_sleep;
  for (const auto& [serial, kept] : kept_) next = std::min(next, kept.due);
  for (const LateEnd& late : ends_) next = std::min(next, late.due);
  return next - now;
}

ClaimUpkeep::Due ClaimUpkeep::due(Nanoseconds now) {
  Due due;
  for (auto& [serial, kept] : kept_) {
    if (kept.due > now) continue;
    kept.due = now + kept.steps.every();
    const Op* const renewal = kept.steps.due(clock_.now());
    if (renewal != nullptr) due.renewals.push_back({.serial = serial, .op = *renewal});
  }
  for (auto each = ends_.begin(); each != ends_.end();) {
    const auto next = std::next(each);
    if (each->due <= now) due.ends.splice(due.ends.end(), ends_, each);
    each = next;
  }
  return due;
}

std::vector<std::vector<Op*>> ClaimUpkeep::Due::batches() {
  std::vector<Op*> left;
  left.reserve(renewals.size() + ends.size());
  for (Renewal& each : renewals) left.push_back(&each.op);
  for (LateEnd& each : ends) left.push_back(&each.op);
  std::vector<std::vector<Op*>> batches;
  while (!left.empty()) {
    std::unordered_set<OperationId> seen;
    std::vector<Op*> batch;
    std::vector<Op*> later;
    for (Op* op : left) (seen.insert(op->id).second ? batch : later).push_back(op);
    batches.push_back(std::move(batch));
    left = std::move(later);
  }
  sometimes<"guard: an old and a new owner of one operation">(batches.size() > 1);
  return batches;
}

std::vector<OperationId> ClaimUpkeep::ended(Due& due, Nanoseconds now) const {
  std::vector<OperationId> over;
  for (auto each = due.ends.begin(); each != due.ends.end();) {
    const auto pause = each->steps.again(store_, std::chrono::duration_cast<Duration>(now - each->began));
    if (pause) {
      sometimes<"guard: an end is tried again">();
      each->due = now + *pause;
      ++each;
    } else {
      over.push_back(each->op.id);
      each = due.ends.erase(each);
    }
  }
  return over;
}

void ClaimUpkeep::answered(Due& due, Nanoseconds now) {
  for (const Renewal& each : due.renewals) note(each, now);
  ends_.splice(ends_.end(), due.ends);
}

void ClaimUpkeep::note(const Renewal& renewal, Nanoseconds now) {
  // If the lease is no longer registered, it may be destroyed.
  const auto found = kept_.find(renewal.serial);
  sometimes<"guard: the work ended during a renewal">(found == kept_.end());
  if (found == kept_.end()) return;
  auto& [lease, steps, due] = found->second;
  steps.answered(renewal.op);
  if (renewal.op.status != OpStatus::failed) {
    sometimes<"guard: running work learns that it has lost its claim">(steps.lost());
    lease->lost.store(steps.lost(), std::memory_order_relaxed);
  } else {
    sometimes<"guard: a renewal failed">();
    due = std::min<Nanoseconds>(due, now + steps.soon());
  }
  if (steps.over()) kept_.erase(found);
}

}  // namespace once::guard
