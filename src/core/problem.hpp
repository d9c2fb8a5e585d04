// Every error response that Once makes itself, as an RFC 9457 problem. One row per kind; docs/errors/<name>.md is its
// page.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace once::core {

enum class ProblemKind : std::uint8_t {
  // About the key; in the error object of the dialects that have one these are `idempotency_error`. Others are
  // `invalid_request_error` below 500, and `api_error`.
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
  // About who sent it.
  caller_required,
  token_invalid,
  // About the backend. Unlike outcome_unknown, the last two are for requests that Once does not protect.
  upstream_busy,    // as many connections as it may have, and the queue is full: nothing was sent
  bad_gateway,      // could not be reached: nothing was sent
  gateway_timeout,  // no response in time
  backend_lost,     // the connection was lost after bytes were sent, or the response is malformed
  loop_detected,    // the request has been here before
  // Of the claims API and the admin interface.
  unauthorized,
  forbidden,  // by a page of another origin, or under a name that is not ours
  claim_invalid,
  claim_lost,
  parameter_invalid,  // of the admin interface
  // About this gateway.
  too_many_connections,
  overloaded,
  caller_limit,
  method_not_allowed,
  not_found,
};

struct ProblemRow {
  ProblemKind kind;
  std::string_view name;  // the default code, and the page in docs/errors/
  std::string_view title;
  int status;
  // Whether sending the same request again, with the same key if it had one, is safe and may end differently.
  Retryable retryable;
};

std::span<const ProblemRow> all_problems();
const ProblemRow& row_of(ProblemKind kind);

struct Problem {
  ProblemKind kind;
  int status;
  std::string code;
  std::string detail;                      // for people; never holds a raw key or a secret
  std::optional<int> retry_after_seconds;  // only of one that is retryable; the gateway says 30 at most
  std::string_view challenge = {};         // WWW-Authenticate of a 401; a literal
  bool error_object = false;               // Wording::error_object
  Retryable retryable = Retryable::no;
  std::string fields = {};  // of the response beside the usual ones, "Name: value\r\n" each
  std::string name = {};    // instead of the row's, if a dialect has one of its own
  std::string title = {};   // the same
};

// As its row says; a dialect or a moment may change status, code and retryable afterwards.
Problem problem(ProblemKind kind, std::string detail);

inline constexpr std::string_view default_type_base = "urn:once:error:";

// application/problem+json: type (type_base and the row's name), title, status, detail, code, retryable.
std::string to_json(const Problem& problem, std::string_view type_base = default_type_base);

}  // namespace once::core
