#include "gateway/metrics.hpp"

namespace once::gateway {

std::string_view name_of(Ending ending) {
  switch (ending) {
    case Ending::passed: return "passed";
    case Ending::executed: return "executed";
    case Ending::replayed: return "replayed";
    case Ending::attached: return "attached";
    case Ending::in_flight: return "in-flight";
    case Ending::mismatch: return "mismatch";
    case Ending::unknown: return "unknown";
    case Ending::stopped: return "stopped";
    case Ending::bypassed: return "bypassed";
    case Ending::rejected: return "rejected";
  }
  return "";
}

std::string_view name_of(PreconditionResult result) {
  switch (result) {
    case PreconditionResult::passed: return "passed";
    case PreconditionResult::failed: return "failed";
    case PreconditionResult::missing: return "missing";
    case PreconditionResult::invalid: return "invalid";
    case PreconditionResult::left_to_backend: return "left-to-backend";
    case PreconditionResult::unreadable: return "unreadable";
    case PreconditionResult::busy: return "busy";
    case PreconditionResult::no_store: return "no-store";
  }
  return "";
}

std::string_view name_of(Shadowed verdict) {
  switch (verdict) {
    case Shadowed::executed: return "executed";
    case Shadowed::replayed: return "replayed";
    case Shadowed::in_flight: return "in-flight";
    case Shadowed::mismatch: return "mismatch";
    case Shadowed::unknown: return "unknown";
    case Shadowed::expired: return "key-expired";
    case Shadowed::key_required: return "key-required";
    case Shadowed::key_invalid: return "key-invalid";
    case Shadowed::bad_request: return "bad-request";
    case Shadowed::caller_refused: return "caller-refused";
    case Shadowed::body_too_large: return "body-too-large";
    case Shadowed::overloaded: return "overloaded";
    case Shadowed::incomplete: return "incomplete";
    case Shadowed::store_error: return "store-error";
  }
  return "";
}

std::string_view name_of(ClaimEnd settled) {
  switch (settled) {
    case ClaimEnd::succeeded: return "succeeded";
    case ClaimEnd::failed: return "failed";
    case ClaimEnd::unknown: return "unknown";
    case ClaimEnd::released: return "released";
    case ClaimEnd::lost: return "lost";
    case ClaimEnd::unrecorded: return "unrecorded";
  }
  return "";
}

RouteMetrics& RouteTable::of(std::string_view route) {
  const std::scoped_lock lock(growing_);
  auto found = routes_.find(route);
  if (found == routes_.end()) found = routes_.emplace(route, std::make_unique<RouteMetrics>()).first;
  return *found->second;
}

std::string_view name_of(ProxyRefusal why) {
  switch (why) {
    case ProxyRefusal::untrusted: return "untrusted";
    case ProxyRefusal::malformed: return "malformed";
    case ProxyRefusal::late: return "late";
    case ProxyRefusal::overload: return "overload";
  }
  return "";
}

std::string_view name_of(Overload limit) {
  switch (limit) {
    case Overload::in_flight: return "in_flight";
    case Overload::body_memory: return "body_memory";
    case Overload::spool: return "spool";
  }
  return "";
}

std::map<std::string, RouteTotals> route_totals(const std::vector<const Metrics*>& workers) {
  std::map<std::string, RouteTotals> all;
  for (const Metrics* worker : workers) {
    worker->routes.visit([&all](const std::string& route, const RouteMetrics& counts) {
      RouteTotals& totals = all[route];
      for (std::size_t i = 0; i < ending_count; ++i) totals.requests[i] += counts.requests[i].value();
      for (std::size_t i = 0; i < claim_end_count; ++i) totals.outcomes[i] += counts.outcomes[i].value();
      totals.takeovers += counts.takeovers.value();
      totals.retries_after_failure += counts.retries_after_failure.value();
    });
  }
  return all;
}

}  // namespace once::gateway
