#include "guard/background.hpp"

#include <pthread.h>

#include <algorithm>
#include <span>
#include <unordered_set>
#include <utility>

#include "base/signals.hpp"

namespace once::guard {

namespace {

// While a store is down, every call leaves a claim that may have been made. Beyond this many, claims are left to
// lapse.
constexpr std::size_t most_late_ends = 10'000;
constexpr std::chrono::nanoseconds longest_sleep = std::chrono::hours(1);

}  // namespace

Background::~Background() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// Call with the mutex held.
void Background::wake() {
  if (!thread_.joinable()) {
    const SignalsBlocked quiet;
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), "once-guard");
  }
  wake_.notify_all();
}

std::uint64_t Background::keep(Lease& lease, const LeaseSteps& steps) {
  const std::scoped_lock lock(mutex_);
  const Nanoseconds now = monotonic_now();
  const Nanoseconds first = steps.first(clock_.now());
  const bool sooner = !thread_.joinable() || first < until_next(now);
  kept_.emplace(++last_serial_, Kept{.lease = &lease, .steps = steps, .due = now + first});
  if (sooner) wake();
  return last_serial_;
}

void Background::let_go(std::uint64_t serial) {
  if (process_.forked()) return;  // the mutex may have been locked during the fork, and would never be unlocked
  const std::scoped_lock lock(mutex_);
  kept_.erase(serial);
}

void Background::end(Op end, Stands claim) {
  const std::scoped_lock lock(mutex_);
  if (claim == Stands::perhaps && ends_.size() >= most_late_ends) return;
  const Patience patience = patience_for_end(end, claim, store_.traits().shared);
  LateEnd& late = ends_.emplace_back(std::move(end), patience);
  const auto first = late.steps.first(store_);
  if (!first) {
    ends_.pop_back();
    return;
  }
  late.began = monotonic_now();
  late.due = late.began + *first;
  wake();
}

void Background::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Nanoseconds now = monotonic_now();
    std::vector<Renewal> renewals = due_renewals(now);
    std::list<LateEnd> ends = due_ends(now);
    if (renewals.empty() && ends.empty()) {
      wake_.wait_for(lock, until_next(now));
      continue;
    }
    lock.unlock();
    execute(renewals, ends);
    const Nanoseconds answered = monotonic_now();
    const auto over = [&](LateEnd& late) {
      const auto pause = late.steps.again(store_, std::chrono::duration_cast<Duration>(answered - late.began));
      late.due = answered + pause.value_or(Duration::zero());
      return !pause;
    };
    for (auto each = ends.begin(); each != ends.end();) {
      if (over(*each)) {
        ended_(each->op.id);
        each = ends.erase(each);
      } else {
        ++each;
      }
    }
    lock.lock();
    for (const Renewal& each : renewals) note(each);
    ends_.splice(ends_.end(), ends);
  }
}

std::chrono::nanoseconds Background::until_next(Nanoseconds now) const {
  Nanoseconds next = now + longest_sleep;
  for (const auto& [serial, kept] : kept_) next = std::min(next, kept.due);
  for (const LateEnd& late : ends_) next = std::min(next, late.due);
  return next - now;
}

std::vector<Background::Renewal> Background::due_renewals(Nanoseconds now) {
  std::vector<Renewal> renewals;
  for (auto& [serial, kept] : kept_) {
    if (kept.due > now) continue;
    kept.due = now + kept.steps.every();
    const Op* const renewal = kept.steps.due(clock_.now());
    if (renewal != nullptr) renewals.push_back({.serial = serial, .op = *renewal});
  }
  return renewals;
}

std::list<Background::LateEnd> Background::due_ends(Nanoseconds now) {
  std::list<LateEnd> due;
  for (auto each = ends_.begin(); each != ends_.end();) {
    const auto next = std::next(each);
    if (each->due <= now) due.splice(due.end(), ends_, each);
    each = next;
  }
  return due;
}

void Background::note(const Renewal& renewal) {
  // If it is no longer registered, it may be destroyed.
  const auto found = kept_.find(renewal.serial);
  if (found == kept_.end()) return;
  auto& [lease, steps, due] = found->second;
  steps.answered(renewal.op);
  if (renewal.op.status != OpStatus::failed) {
    lease->lost.store(steps.lost(), std::memory_order_relaxed);
  } else {
    due = std::min<Nanoseconds>(due, monotonic_now() + steps.soon());
  }
  if (steps.over()) kept_.erase(found);
}

// An operation can have two owners here, an old and a new one; a batch must not contain it twice.
void Background::execute(std::vector<Renewal>& renewals, std::list<LateEnd>& ends) {
  std::vector<Op*> left;
  left.reserve(renewals.size() + ends.size());
  for (Renewal& each : renewals) left.push_back(&each.op);
  for (LateEnd& each : ends) left.push_back(&each.op);
  while (!left.empty()) {
    std::unordered_set<OperationId> seen;
    const auto second =
        std::partition(left.begin(), left.end(), [&seen](const Op* op) { return seen.insert(op->id).second; });
    execute_caught(store_, std::span(left.begin(), second));
    left.erase(left.begin(), second);
  }
}

}  // namespace once::guard
