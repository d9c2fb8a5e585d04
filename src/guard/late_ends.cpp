#include "guard/late_ends.hpp"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/clock.hpp"

namespace once::guard {

namespace {

using namespace std::chrono_literals;

// Between two tries; each doubles it.
constexpr std::chrono::nanoseconds first_late_try = 20ms;
constexpr std::chrono::nanoseconds slowest_late_try = 5s;
// While a store is down every call leaves a claim that may have been made. Beyond this many they are left to lapse.
constexpr std::size_t most_releases = 10'000;

}  // namespace

LateEnds::~LateEnds() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LateEnds::add(const Op& op, Patience patience) {
  const std::scoped_lock lock(mutex_);
  if (op.verb == Verb::release && left_.size() >= most_releases) return;
  const auto now = monotonic_now();
  Late late{.op = op, .patience = patience, .since = now, .due = now + first_late_try, .pause = first_late_try};
  late.op.tenant = {};  // views of a request that is over
  late.op.route = {};
  late.op.record.reset();
  left_.push_back(std::move(late));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { loop(); });
    pthread_setname_np(thread_.native_handle(), "once-late-ends");
  }
  wake_.notify_all();
}

void LateEnds::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (left_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const auto now = monotonic_now();
    std::vector<Late> due = take_due(now);
    if (due.empty()) {
      const auto next = std::ranges::min_element(left_, {}, &Late::due)->due;
      wake_.wait_for(lock, next - now);
      continue;
    }
    lock.unlock();
    execute(due);
    const auto ended = std::ranges::remove_if(due, [this](Late& late) { return !goes_on(late); });
    const bool any_ended = !ended.empty();
    due.erase(ended.begin(), ended.end());
    if (any_ended) ended_();
    lock.lock();
    std::ranges::move(due, std::back_inserter(left_));
  }
}

std::vector<LateEnds::Late> LateEnds::take_due(std::chrono::nanoseconds now) {
  std::vector<Late> due;
  const auto first = std::ranges::partition(left_, [now](const Late& late) { return late.due > now; });
  std::ranges::move(first, std::back_inserter(due));
  left_.erase(first.begin(), first.end());
  return due;
}

// Beside the lanes, so that this is a driver's edge, too; a batch holds an operation once.
void LateEnds::execute(std::vector<Late>& due) {
  std::vector<Op*> ops;
  ops.reserve(due.size());
  for (Late& each : due) ops.push_back(&each.op);
  while (!ops.empty()) {
    std::unordered_set<OperationId> seen;
    const auto second =
        std::partition(ops.begin(), ops.end(), [&seen](const Op* op) { return seen.insert(op->id).second; });
    try {
      store_.execute(std::span(ops.begin(), second));
    } catch (const std::exception& failure) {
      for (auto each = ops.begin(); each != second; ++each) {
        answer_failed(**each, StoreFault::unavailable, failure.what());
      }
    }
    ops.erase(ops.begin(), second);
  }
}

bool LateEnds::goes_on(Late& late) const {
  const auto now = monotonic_now();
  if (late.op.status == OpStatus::done || store_.failed_for_good()) return false;
  if (late.op.status == OpStatus::lost) {
    late.not_there += late.pause;
    if (late.not_there >= late.patience.on_its_way) return false;
  }
  if (now - late.since >= late.patience.limit) return false;
  late.pause = std::min(late.pause * 2, slowest_late_try);
  late.due = now + late.pause;
  return true;
}

}  // namespace once::guard
