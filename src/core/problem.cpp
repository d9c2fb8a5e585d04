#include "core/problem.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "core/json_text.hpp"

namespace once::core {

namespace {

using enum ProblemKind;

constexpr Retryable no = Retryable::no;
constexpr Retryable yes = Retryable::yes;

// clang-format off
constexpr std::array problem_rows = {
  ProblemRow{key_required,         "key-required",         "An idempotency key is required",               400, no},
  ProblemRow{key_invalid,          "key-invalid",          "The idempotency key is not valid",             400, no},
  ProblemRow{key_mismatch,         "key-mismatch",         "The key was used for another request",         422, no},
  ProblemRow{in_flight,            "in-flight",            "A request with this key is being processed",   409, yes},
  ProblemRow{outcome_unknown,      "outcome-unknown",      "The outcome of the request is unknown",        409, yes},
  ProblemRow{response_not_kept,    "response-not-kept",    "The request succeeded; its response was not kept", 409, no},
  ProblemRow{key_not_found,        "key-not-found",        "There is no response for this key",            404, yes},
  ProblemRow{key_expired,          "key-expired",          "The key has expired",                          410, no},
  ProblemRow{precondition_failed,  "precondition-failed",  "The resource is not in the expected state",    412, no},
  ProblemRow{precondition_required, "precondition-required", "The write needs If-Match or If-None-Match", 428, no},
  ProblemRow{resource_busy,        "resource-busy",        "Another write to the resource is running",     409, yes},
  ProblemRow{store_unavailable,    "store-unavailable",    "The idempotency store is not available",       503, yes},
  ProblemRow{store_full,           "store-full",           "The idempotency store is full",                503, yes},
  ProblemRow{bad_request,          "bad-request",          "The request is not valid HTTP",                400, no},
  ProblemRow{body_too_large,       "body-too-large",       "The request body is too large",                413, no},
  ProblemRow{uri_too_long,         "uri-too-long",         "The request target is too long",               414, no},
  ProblemRow{headers_too_large,    "headers-too-large",    "The request headers are too large",            431, no},
  ProblemRow{request_timeout,      "request-timeout",      "The request did not arrive in time",           408, yes},
  ProblemRow{caller_required,      "caller-required",      "The request does not identify its caller",     401, no},
  ProblemRow{token_invalid,        "token-invalid",        "The token is not valid",                       401, no},
  ProblemRow{upstream_busy,        "upstream-busy",        "All connections to the backend are busy",      503, yes},
  ProblemRow{bad_gateway,          "bad-gateway",          "The backend could not be reached",             502, yes},
  ProblemRow{gateway_timeout,      "gateway-timeout",      "The backend did not answer in time",           504, no},
  ProblemRow{backend_lost,         "backend-lost",         "The backend gave no valid response",           502, no},
  ProblemRow{loop_detected,        "loop-detected",        "The request has passed this gateway before",   508, no},
  ProblemRow{unauthorized,         "unauthorized",         "A valid token is required",                    401, no},
  ProblemRow{forbidden,            "forbidden",            "The request is not allowed here",              403, no},
  ProblemRow{claim_invalid,        "claim-invalid",        "The claim is not valid",                       400, no},
  ProblemRow{claim_lost,           "claim-lost",           "The claim is no longer current",               409, no},
  ProblemRow{parameter_invalid,    "parameter-invalid",    "A parameter of the request is not valid",      400, no},
  ProblemRow{too_many_connections, "too-many-connections", "The gateway has too many connections",         503, yes},
  ProblemRow{overloaded,           "overloaded",           "The gateway is overloaded",                    503, yes},
  ProblemRow{caller_limit,         "caller-limit",         "This caller has reached a limit",              429, yes},
  ProblemRow{method_not_allowed,   "method-not-allowed",   "The method is not allowed here",               405, no},
  ProblemRow{not_found,            "not-found",            "Not found",                                    404, no},
};
// clang-format on

consteval bool one_row_per_kind_in_order() {
  for (std::size_t i = 0; i < problem_rows.size(); ++i) {
    if (static_cast<std::size_t>(problem_rows[i].kind) != i) return false;
  }
  return problem_rows.back().kind == not_found;
}
static_assert(one_row_per_kind_in_order(), "row_of() finds a row by its kind");

bool is_about_the_key(ProblemKind kind) {
  return kind <= key_expired;
}

// The error types that Stripe's client libraries distinguish.
std::string_view error_type(const Problem& problem) {
  if (is_about_the_key(problem.kind)) return "idempotency_error";
  return problem.status < 500 ? "invalid_request_error" : "api_error";
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  append_json_string(out, name);
  out += ':';
  append_json_string(out, value);
}

}  // namespace

std::span<const ProblemRow> all_problems() {
  return problem_rows;
}

const ProblemRow& row_of(ProblemKind kind) {
  return problem_rows[static_cast<std::size_t>(kind)];
}

Problem problem(ProblemKind kind, std::string detail) {
  const ProblemRow& row = row_of(kind);
  return {.kind = kind,
          .status = row.status,
          .code = std::string(row.name),
          .detail = std::move(detail),
          .retry_after_seconds = std::nullopt,
          .challenge = {},
          .error_object = false,
          .retryable = row.retryable,
          .fields = {},
          .name = {},
          .title = {}};
}

std::string to_json(const Problem& problem, std::string_view type_base) {
  const ProblemRow& row = row_of(problem.kind);
  std::string type(type_base);
  type += problem.name.empty() ? row.name : problem.name;

  std::string out = "{";
  append_member(out, "type", type);
  out += ',';
  append_member(out, "title", problem.title.empty() ? row.title : problem.title);
  fmt::format_to(std::back_inserter(out), ",\"status\":{},", problem.status);
  append_member(out, "detail", problem.detail);
  out += ',';
  append_member(out, "code", problem.code);
  out += problem.retryable == Retryable::yes ? ",\"retryable\":true" : ",\"retryable\":false";
  if (problem.error_object) {
    out += ",\"error\":{";
    append_member(out, "type", error_type(problem));
    out += ',';
    append_member(out, "code", problem.code);
    out += ',';
    append_member(out, "message", problem.detail);
    out += '}';
  }
  out += '}';
  return out;
}

}  // namespace once::core
