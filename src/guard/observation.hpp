// Measures one call for Options::observe. Costs nothing if that is not set.
#pragma once

#include <functional>
#include <utility>

#include <once/guard.hpp>

#include "base/clock.hpp"
#include "guard/caught.hpp"

namespace once::guard {

class Observation {
 public:
  using Observe = std::function<void(const Observed&)>;

  Observation(const Observe& observe, Observed::Call call, const Request* request = nullptr) : observe_(observe) {
    if (!observe_) return;
    seen_.call = call;
    if (request != nullptr) {
      seen_.tenant = request->tenant;
      seen_.scope = request->scope;
    }
    seen_.began = last_ = moment();
  }

  // Each takes the time since the previous one.
  void claimed() { mark(seen_.claiming); }
  void worked() { mark(seen_.working); }
  void recorded() { mark(seen_.recording); }

  void ended(const OutcomeFacts& outcome) {
    if (!observe_) return;
    seen_.status = outcome.status;
    seen_.reason = outcome.reason;
    seen_.source = outcome.source;
    seen_.attempt = outcome.attempt;
    Thrown dropped;
    caught([this] { observe_(seen_); }, dropped);
  }

 private:
  static std::chrono::steady_clock::time_point moment() {
    return std::chrono::steady_clock::time_point(monotonic_now());
  }
  void mark(std::chrono::nanoseconds& took) {
    if (!observe_) return;
    const auto now = moment();
    took = now - std::exchange(last_, now);
  }

  const Observe& observe_;
  Observed seen_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace once::guard
