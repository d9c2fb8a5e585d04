#include "claims/metrics.hpp"

#include "base/assert.hpp"

namespace once::claims {

std::string_view name_of(ClaimsVerb verb) {
  switch (verb) {
    case ClaimsVerb::claim: return "claim";
    case ClaimsVerb::lookup: return "lookup";
    case ClaimsVerb::follow: return "follow";
    case ClaimsVerb::renew: return "renew";
    case ClaimsVerb::progress: return "progress";
    case ClaimsVerb::succeed: return "succeed";
    case ClaimsVerb::fail: return "fail";
    case ClaimsVerb::release: return "release";
    case ClaimsVerb::other: return "other";
  }
  ONCE_ASSERT(false);
}

std::string_view name_of(ClaimsResult result) {
  switch (result) {
    case ClaimsResult::acquired: return "acquired";
    case ClaimsResult::succeeded: return "succeeded";
    case ClaimsResult::in_progress: return "in_progress";
    case ClaimsResult::unknown: return "unknown";
    case ClaimsResult::mismatch: return "mismatch";
    case ClaimsResult::none: return "none";
    case ClaimsResult::failed: return "failed";
    case ClaimsResult::done: return "done";
    case ClaimsResult::lost: return "lost";
    case ClaimsResult::invalid: return "invalid";
    case ClaimsResult::unauthorized: return "unauthorized";
    case ClaimsResult::error: return "error";
  }
  ONCE_ASSERT(false);
}

std::span<const ClaimsResult> results_of(ClaimsVerb verb) {
  using enum ClaimsResult;
  static constexpr std::array of_claim = {acquired, succeeded, in_progress,  unknown,
                                          mismatch, invalid,   unauthorized, error};
  static constexpr std::array of_lookup = {none, in_progress, succeeded, failed, unknown, invalid, unauthorized, error};
  static constexpr std::array of_owner = {done, lost, invalid, unauthorized, error};
  static constexpr std::array of_other = {done, invalid};
  switch (verb) {
    case ClaimsVerb::claim: return of_claim;
    case ClaimsVerb::lookup:
    case ClaimsVerb::follow: return of_lookup;
    case ClaimsVerb::renew:
    case ClaimsVerb::progress:
    case ClaimsVerb::succeed:
    case ClaimsVerb::fail:
    case ClaimsVerb::release: return of_owner;
    case ClaimsVerb::other: return of_other;
  }
  ONCE_ASSERT(false);
}

ScopeMetrics& MetricsByScope::of(std::string_view tenant, std::string_view scope, std::size_t most) {
  const auto tenants = tenants_.lock();
  Scopes& scopes = tenants->try_emplace(std::string(tenant)).first->second;
  const auto known = scopes.find(scope);
  if (known != scopes.end()) return known->second;
  const bool alone = scopes.size() - scopes.count(other_scopes) < most;
  return scopes[std::string(alone ? scope : other_scopes)];
}

void MetricsByScope::for_each(const See& see) const {
  const auto tenants = tenants_.lock();
  for (const auto& [tenant, scopes] : *tenants) {
    for (const auto& [scope, metrics] : scopes) see(tenant, scope, metrics);
  }
}

}  // namespace once::claims
