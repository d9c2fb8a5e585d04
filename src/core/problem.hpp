// All error responses that Once itself makes, as RFC 9457 problems. One row per kind; docs/errors/<name>.md describes
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "core/fields.hpp"

namespace once::core {

enum class ProblemKind : std::uint8_t {
  // About the key. Dialects with an error object report these as `idempotency_error`, others as `invalid_request_error`
  // below 500 and else as `api_error`.
  key_required,
  key_invalid,
  key_mismatch,
  in_flight,
  outcome_unknown,
  response_not_kept,
  key_not_found,
  key_expired,
  // About the state that a write finds.
  precondition_failed,
  precondition_required,
  resource_busy,
  // About the store.
  store_unavailable,
  store_full,
  // About the request.
  bad_request,
  body_too_large,
  uri_too_long,
  headers_too_large,
  request_timeout,
  // About the caller.
  caller_required,
  token_invalid,
  // About the backend. Unlike outcome_unknown, the last two are for unprotected requests.
  upstream_busy,    // all connections are in use and the queue is full: nothing was sent
  bad_gateway,      // the backend could not be reached: nothing was sent
  gateway_timeout,  // no response in time
  backend_lost,     // the connection was lost after bytes were sent, or the response is malformed
  loop_detected,    // the request has already passed this gateway
  // In the claims API and the admin interface.
  unauthorized,
  forbidden,  // a page of another origin, or an unknown host name
  claim_invalid,
  claim_lost,
  parameter_invalid,  // in the admin interface
  // About this gateway.
  too_many_connections,
  overloaded,
  caller_limit,
  method_not_allowed,
  not_found,
};

struct ProblemRow {
  ProblemKind kind;
  std::string_view name;  // the default code, and the name of the page in docs/errors/
  std::string_view title;
  int status;
  // Whether resending the same request, with the same key if it had one, is safe and may end differently.
  Retryable retryable;
};

std::span<const ProblemRow> all_problems();
const ProblemRow& row_of(ProblemKind kind);

struct Problem {
  ProblemKind kind;
  int status;
  std::string code;
  std::string detail;                      // for people; never contains a raw key or a secret
  std::optional<int> retry_after_seconds;  // only if retryable; the gateway caps it at 30
  std::string_view challenge = {};         // WWW-Authenticate of a 401; points to a literal
  bool error_object = false;               // Wording::error_object
  Retryable retryable = Retryable::no;
  Fields fields = {};      // of the response, besides those that every problem has
  std::string name = {};   // overrides the row's name, for dialects with their own
  std::string title = {};  // overrides the row's title
};

// A problem with its row's values; status, code and retryable may be changed afterwards.
Problem problem(ProblemKind kind, std::string detail);

inline constexpr std::string_view default_type_base = "urn:once:error:";

// application/problem+json: type (type_base and the row's name), title, status, detail, code, retryable.
std::string to_json(const Problem& problem, std::string_view type_base = default_type_base);

}  // namespace once::core
