#include "guard/renewer.hpp"

#include <pthread.h>

#include <algorithm>
#include <unordered_set>

#include "base/clock.hpp"

namespace once::guard {

namespace {

constexpr int renewals_per_lease = 3;
constexpr int retries_per_lease = 30;

std::chrono::nanoseconds pause_of(const Lease& lease) {
  return std::chrono::nanoseconds(lease.length) / renewals_per_lease;
}

}  // namespace

Renewer::~Renewer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::uint64_t Renewer::add(Lease& lease) {
  const std::scoped_lock lock(mutex_);
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), "once-renewer");
  }
  const auto due = monotonic_now() + pause_of(lease);
  const bool sooner = kept_.empty() || due < next_due();
  kept_.emplace(++last_serial_, Kept{&lease, due});
  if (sooner) wake_.notify_all();
  return last_serial_;
}

void Renewer::remove(std::uint64_t serial) {
  const std::scoped_lock lock(mutex_);
  kept_.erase(serial);
}

std::chrono::nanoseconds Renewer::next_due() const {
  return std::ranges::min_element(kept_, {}, [](const auto& each) { return each.second.due; })->second.due;
}

void Renewer::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (kept_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto now = monotonic_now();
    std::vector<Renewal> renewals = take_due(now);
    if (renewals.empty()) {
      wake_.wait_for(lock, next_due() - now);
      continue;
    }
    lock.unlock();
    execute(renewals);
    lock.lock();
    for (const Renewal& each : renewals) note(each);
  }
}

void Renewer::note(const Renewal& renewal) {
  // One that is no longer kept may be gone.
  const auto found = kept_.find(renewal.serial);
  if (found == kept_.end()) return;
  Kept& kept = found->second;
  switch (renewal.op.status) {
    case OpStatus::done: kept.lease->lost.store(false, std::memory_order_relaxed); return;
    case OpStatus::failed:
      kept.due = std::min(kept.due, monotonic_now() + std::chrono::nanoseconds(kept.lease->length) / retries_per_lease);
      return;
    case OpStatus::lost:
      kept.lease->lost.store(true, std::memory_order_relaxed);
      kept.lost = renewal.op.nonce;
      if (kept.lease->work == nullptr) kept_.erase(found);
      return;
  }
}

std::vector<Renewer::Renewal> Renewer::take_due(std::chrono::nanoseconds now) {
  std::vector<Renewal> renewals;
  for (auto& [serial, kept] : kept_) {
    if (kept.due > now) continue;
    kept.due = now + pause_of(*kept.lease);
    const Nonce nonce = kept.lease->newest();
    if (kept.lost == nonce) continue;
    Op op;
    op.verb = Verb::renew;
    op.id = kept.lease->id;
    op.nonce = nonce;
    op.terms.lease = kept.lease->length;
    op.terms.owner = kept.lease->owner;
    renewals.push_back({.serial = serial, .op = std::move(op)});
  }
  return renewals;
}

// Beside the lanes, so that renewals do not stand in line behind claims; the verbs of one operation may overlap, as
// those of two processes do. One operation can have two owners here, an old and a new one: each batch holds it once.
void Renewer::execute(std::vector<Renewal>& renewals) {
  std::vector<Op*> left;
  left.reserve(renewals.size());
  for (Renewal& each : renewals) left.push_back(&each.op);
  while (!left.empty()) {
    std::unordered_set<OperationId> seen;
    const auto second =
        std::partition(left.begin(), left.end(), [&seen](const Op* op) { return seen.insert(op->id).second; });
    store_.execute(std::span(left.begin(), second));
    left.erase(left.begin(), second);
  }
}

}  // namespace once::guard
