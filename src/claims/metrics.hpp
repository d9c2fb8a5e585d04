// Metrics of the claims API: written by its own thread, read by /metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "gateway/metrics.hpp"

namespace once::claims {

enum class ClaimsVerb : std::uint8_t { claim, lookup, renew, succeed, fail, release, other };
inline constexpr std::size_t claims_verb_count = 7;

enum class ClaimsResult : std::uint8_t {
  acquired,
  succeeded,
  in_progress,
  unknown,
  mismatch,
  none,    // looked up, and there is no such operation
  failed,  // looked up, and the last attempt failed
  done,
  lost,     // the claim is no longer current
  invalid,  // the request was refused as it stands
  unauthorized,
  error,  // the store could not do it
};
inline constexpr std::size_t claims_result_count = 12;

std::string_view name_of(ClaimsVerb verb);
std::string_view name_of(ClaimsResult result);

// How a request of this verb can end.
std::span<const ClaimsResult> results_of(ClaimsVerb verb);

struct ClaimsMetrics {
  std::array<std::array<Counter, claims_result_count>, claims_verb_count> requests;
  Counter takeovers;              // acquired after an attempt with an unknown outcome
  Counter retries_after_failure;  // acquired after an attempt that failed
  Counter waiting;                // long polls
  Counter waits_refused;          // long polls answered at once, because claims.max_waiting was reached
  Counter connections_open;
  Counter connections_refused;
  Counter connections_displaced;  // closed without a request at work, to make room
  Counter bodies_refused;

  void count(ClaimsVerb verb, ClaimsResult result) {
    requests[static_cast<std::size_t>(verb)][static_cast<std::size_t>(result)].add();
  }
};

}  // namespace once::claims
