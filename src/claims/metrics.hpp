// Metrics of the claims API: written by its own thread, read by /metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/synchronized.hpp"
#include "gateway/metrics.hpp"

namespace once::claims {

enum class ClaimsVerb : std::uint8_t { claim, lookup, follow, renew, progress, succeed, fail, release, other };
inline constexpr std::size_t claims_verb_count = 9;

enum class ClaimsResult : std::uint8_t {
  acquired,
  succeeded,
  in_progress,
  unknown,
  mismatch,
  none,    // a lookup found no operation
  failed,  // a lookup found a failed attempt
  done,
  lost,     // the claim is no longer current
  invalid,  // the request itself was refused
  unauthorized,
  error,  // the store failed
};
inline constexpr std::size_t claims_result_count = 12;

std::string_view name_of(ClaimsVerb verb);
std::string_view name_of(ClaimsResult result);

// The possible results of a request of this verb.
std::span<const ClaimsResult> results_of(ClaimsVerb verb);

// The claims of one scope.
struct ScopeMetrics {
  std::array<Counter, claims_result_count> claims;
  Counter takeovers;
  Counter retries_after_failure;

  void count(ClaimsResult result) { claims[static_cast<std::size_t>(result)].add(); }
};

// By tenant and scope. Tenants are named in the settings, scopes by clients, so each tenant has a limited number of
// scopes here and all its others are counted together.
class MetricsByScope {
 public:
  static constexpr std::string_view other_scopes = "other";

  using See = std::function<void(std::string_view tenant, std::string_view scope, const ScopeMetrics& metrics)>;

  // For the thread that counts. `most` is the number of scopes per tenant that are counted separately.
  ScopeMetrics& of(std::string_view tenant, std::string_view scope, std::size_t most);
  void for_each(const See& see) const;

 private:
  // Nothing is erased, and a map's nodes do not move.
  using Scopes = std::map<std::string, ScopeMetrics, std::less<>>;
  Synchronized<std::map<std::string, Scopes, std::less<>>> tenants_;
};

struct ClaimsMetrics {
  std::array<std::array<Counter, claims_result_count>, claims_verb_count> requests;
  Counter takeovers;              // acquired after an attempt with an unknown outcome
  Counter retries_after_failure;  // acquired after an attempt that failed
  MetricsByScope by_scope;
  Counter waiting;        // long polls
  Counter waits_refused;  // long polls answered at once, because claims.max_waiting was reached
  Counter connections_open;
  Counter connections_refused;
  Counter connections_displaced;  // idle connections closed to make room
  Counter bodies_refused;
  Counter progress_refused;  // because of the limit on the progress of a claim

  void count(ClaimsVerb verb, ClaimsResult result) {
    requests[static_cast<std::size_t>(verb)][static_cast<std::size_t>(result)].add();
  }
};

}  // namespace once::claims
