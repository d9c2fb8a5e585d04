// CORS for routes with cors.origins: answers preflights, and adds to every response of the route, including replays and
// errors of Once, what the request's origin may read. A recorded response may have been made for another origin, so the
// backend's CORS fields are replaced.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/policy.hpp"
#include "gateway/connection/reply.hpp"
#include "http/head.hpp"

namespace once::gateway {

// The CORS decision for one request. Holds views of the policy and the request's head.
class CorsGrant {
 public:
  CorsGrant(const Policy& policy, const http::RequestHead& head);

  // Whether the request's origin is allowed.
  bool allowed() const { return !origin_.empty(); }

  // Adds the CORS fields to those of a response. For an origin that is not allowed, or a request without one, adds only
  // Vary, so that caches do not share the response between origins.
  void apply(Fields& fields) const;

  // Adds the fields of a preflight response.
  void add_allowed(Fields& fields) const;

 private:
  const Policy& policy_;
  std::string_view origin_;  // the origin to return; empty: not allowed
};

// Whether this is an OPTIONS with Origin and Access-Control-Request-Method.
bool is_preflight(const http::RequestHead& head);
// The method that the preflight asks for.
std::string_view preflight_method(const http::RequestHead& head);
// The methods whose routes may answer the preflight: the requested one, stored in `asked`; for a lookup or a stop, the
// methods of operations that it may be about.
std::span<const Method> preflight_routes(const http::RequestHead& head, Method& asked);

enum class Preflight : std::uint8_t { answered, malformed };
// Fills in the reply to a preflight of an allowed origin, except for the fields of apply().
Preflight answer_preflight(const Policy& policy, const http::RequestHead& head, std::string_view request_id,
                           Reply& reply);

}  // namespace once::gateway
