// What one request with a key takes of the quotas of its caller (limits.caller) and of the network that it comes from
// (limits.address).
#pragma once

#include <chrono>
#include <optional>

#include "base/task.hpp"
#include "core/operation.hpp"
#include "core/problem.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "gateway/settings.hpp"
#include "http/loop.hpp"
#include "store/lane.hpp"

namespace once::gateway {

class KeyQuota {
 public:
  static constexpr CallerTable::Refusal too_many_at_work{.limit = CallerLimit::in_flight, .retry_after_seconds = 1};

  KeyQuota(CallerTable& callers, CallerTable& networks, const Limits& limits)
      : callers_(callers), networks_(networks), limits_(limits) {}

  // The request is at work for its caller until this is destroyed. False: the caller has as many at work as it may.
  bool begin(const TenantTag& caller, std::chrono::nanoseconds now);
  // New keys are charged to this network, too. nullopt: to none.
  void charge(const std::optional<TenantTag>& network) { network_ = network; }
  bool is_limited() const { return caller_ || network_; }

  // A key that may be new. Counted as such unless refused.
  std::optional<CallerTable::Refusal> take_key(std::chrono::nanoseconds now);
  // What became of the request: gives back a key that was known before, and counts what was recorded.
  void settle(const Reply& reply, Duration ttl, std::chrono::nanoseconds now);

 private:
  CallerTable& callers_;
  CallerTable& networks_;
  const Limits& limits_;
  CallerUse caller_;
  std::optional<TenantTag> network_;
  bool network_counted_ = false;  // the key, as a new one
};

// Why a key that would be one too many is refused; nullopt if it may go on. A key that the store has is not new.
Task<std::optional<CallerTable::Refusal>> refuse_new_key(KeyQuota& quota, const OperationId& operation, Lanes& store,
                                                         http::Loop& home);
// What a caller is told who has reached a limit.
Problem limit_problem(const CallerTable::Refusal& refusal);

}  // namespace once::gateway
