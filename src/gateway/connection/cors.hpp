// What browsers are told about scripts of other origins, for routes that say so (cors.origins): preflights are answered
// here, and every response of the route, a replay or an error of Once's own included, says to this request's origin
// what it may read. A recorded answer may have been made for another origin, so what a backend says about it is
// replaced.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/policy.hpp"
#include "gateway/connection/reply.hpp"
#include "http/head.hpp"

namespace once::gateway {

// For one request. Views of the policy and the request's head.
class CorsGrant {
 public:
  CorsGrant(const Policy& policy, const http::RequestHead& head);

  // Whether the origin of the request is one of those named.
  bool allowed() const { return !origin_.empty(); }

  // On a head of status line and fields, each with its CRLF, whoever made it. For an origin that is not allowed, or a
  // request without one, it only says that the answer depends on it: a cache must not give it to everybody.
  void apply(std::string& head) const;

  // Of a preflight.
  void append_allowed(std::string& head) const;

 private:
  const Policy& policy_;
  std::string_view origin_;  // as it is said back; empty: not allowed
};

// OPTIONS with Origin and Access-Control-Request-Method.
bool is_preflight(const http::RequestHead& head);
// What is asked for.
std::string_view preflight_method(const http::RequestHead& head);
// The methods whose routes may answer it: the one that is asked for, which is put into `asked`; or for a lookup and a
// stop those of the operations that they may be about.
std::span<const Method> preflight_routes(const http::RequestHead& head, Method& asked);

enum class Preflight : std::uint8_t { answered, malformed };
// Fills in the reply to a preflight of an allowed origin, but for what apply() adds.
Preflight answer_preflight(const Policy& policy, const http::RequestHead& head, std::string_view request_id,
                           Reply& reply);

}  // namespace once::gateway
