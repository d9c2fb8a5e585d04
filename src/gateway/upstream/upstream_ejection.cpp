#include "gateway/upstream/upstream_ejection.hpp"

#include <algorithm>

namespace once::gateway {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

std::int64_t in_nanoseconds(Duration duration) {
  return std::chrono::nanoseconds(duration).count();
}

}  // namespace

bool EjectedServers::try_enter() {
  if (count_.fetch_add(1, relaxed) < most_) return true;
  leave();
  return false;
}

ServerEjection::Trial ServerEjection::pick(Instant now) {
  Trial trial;
  std::int64_t until = until_.load(relaxed);
  if (until == 0) return trial;
  if (until <= now.count()) {
    const std::int64_t next = now.count() + length_.load(relaxed);
    if (until_.compare_exchange_strong(until, next, relaxed)) until = next;
  }
  trial.until_ = until;
  return trial;
}

ServerEjection::Change ServerEjection::served(Served how, const Trial& trial, Instant now) {
  if (settings_.failures == 0) return Change::none;
  if (trial) return end_trial(how, trial, now);
  if (ejected()) return Change::none;  // the request was sent before the ejection
  if (how == Served::well) {
    if (badly_.load(relaxed) != 0) badly_.store(0, relaxed);
    return Change::none;
  }
  if (badly_.fetch_add(1, relaxed) + 1 < settings_.failures) return Change::none;
  return eject(now);
}

std::int64_t ServerEjection::longer() const {
  return std::min(2 * length_.load(relaxed), in_nanoseconds(settings_.max_time));
}

// If the server worked for less time than it was ejected before, double the time.
ServerEjection::Change ServerEjection::eject(Instant now) {
  if (!others_.try_enter()) return Change::none;
  const std::int64_t before = length_.load(relaxed);
  const bool again = before != 0 && now.count() - readmitted_.load(relaxed) < before;
  const std::int64_t length = again ? longer() : in_nanoseconds(settings_.time);
  std::int64_t in_service = 0;
  if (!until_.compare_exchange_strong(in_service, now.count() + length, relaxed)) {
    others_.leave();  // another worker ejected it first
    return Change::none;
  }
  length_.store(length, relaxed);
  badly_.store(0, relaxed);
  times_.fetch_add(1, relaxed);
  return Change::ejected;
}

ServerEjection::Change ServerEjection::end_trial(Served how, const Trial& trial, Instant now) {
  std::int64_t until = trial.until_;
  if (how == Served::badly) {
    // If several requests tried it at once, the first result counts.
    const std::int64_t length = longer();
    if (until_.compare_exchange_strong(until, now.count() + length, relaxed)) length_.store(length, relaxed);
    return Change::none;
  }
  if (until_.exchange(0, relaxed) == 0) return Change::none;
  readmitted_.store(now.count(), relaxed);
  badly_.store(0, relaxed);
  others_.leave();
  return Change::readmitted;
}

}  // namespace once::gateway
