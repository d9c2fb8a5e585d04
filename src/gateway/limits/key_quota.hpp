// What one request with a key takes of the quotas of its caller (limits.caller) and of the network that it comes from
// (limits.address).
#pragma once

#include <chrono>
#include <optional>

#include "core/operation.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "gateway/settings.hpp"

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

}  // namespace once::gateway
