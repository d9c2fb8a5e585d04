#include "client/policy.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/backoff.hpp"

namespace once::client {

namespace {

using enum Happened;
using enum Retried;

// clang-format off
constexpr std::array table = {
  Row{not_resolved, "not-resolved", always, Sent::nothing,
      "the name could not be resolved", "nothing was sent; name servers recover"},
  Row{not_connected, "not-connected", always, Sent::nothing,
      "could not connect: refused, unreachable, no connection in time", "nothing was sent"},
  Row{not_trusted, "not-trusted", never, Sent::nothing,
      "the certificate was not accepted", "nothing was sent; the next try would get the same certificate"},
  Row{lost_before_sending, "lost-before-sending", always, Sent::nothing,
      "connection lost before the request was sent", "nothing was sent"},
  Row{timed_out, "timed-out", always, Sent::perhaps,
      "no complete response within the time for a try", "may have been executed; the key makes a retry safe"},
  Row{lost_after_sending, "lost-after-sending", always, Sent::perhaps,
      "connection lost after sending or during the response", "may have been executed; the key makes a retry safe"},
  Row{not_http, "not-http", never, Sent::perhaps,
      "a response that is not HTTP", "the server at this address is not the API"},
  Row{answer_too_large, "answer-too-large", never, Sent::perhaps,
      "a response larger than the limits", "the next one would be as large"},
  Row{broken_off, "broken-off", never, Sent::perhaps,
      "a response with `Idempotency-Status: unknown` that ends too early", "the execution broke off, and is held"},
  Row{new_attempt, "new-attempt", never, Sent::perhaps,
      "a stream whose retry is another execution", "its bytes do not continue those that were given"},
  Row{not_protected, "not-protected", never, Sent::perhaps,
      "a stream that broke and did not say that its key was honoured", "a retry might execute it again"},
  Row{success, "success", never, Sent::answered,
      "2xx", "done"},
  Row{redirect, "redirect", never, Sent::answered,
      "3xx", "another URL is another operation; never followed"},
  Row{request_timeout, "request-timeout", always, Sent::answered,
      "408", "the request did not arrive in time"},
  Row{in_flight, "in-flight", always, Sent::perhaps,
      "409 for a request in flight", "an earlier try is still running; its response will be available soon"},
  Row{unknown_for_now, "unknown-for-now", always, Sent::perhaps,
      "409 `outcome-unknown` with `Retry-After`", "a retry may be executed after that time"},
  Row{unknown_held, "unknown-held", never, Sent::perhaps,
      "409 `outcome-unknown` without `Retry-After`", "held until an operator has resolved it"},
  Row{conflict, "conflict", never, Sent::answered,
      "any other 409", "waiting does not resolve it"},
  Row{mismatch, "mismatch", never, Sent::answered,
      "422", "the key was used for another request, or the request is not valid"},
  Row{too_early, "too-early", always, Sent::answered,
      "425", "the server asks for a retry"},
  Row{too_many_requests, "too-many-requests", always, Sent::answered,
      "429", "the server asks for a retry"},
  Row{client_error, "client-error", never, Sent::answered,
      "any other 4xx", "the same request would be refused again"},
  Row{server_error, "server-error", if_asked, Sent::answered,
      "500, any other 5xx", "the server failed and may have done part of the work; `server_errors` decides"},
  Row{not_implemented, "not-implemented", never, Sent::answered,
      "501, 505", "a retry would get the same response"},
  Row{bad_gateway, "bad-gateway", always, Sent::perhaps,
      "502", "may have been executed behind the gateway; the key makes a retry safe"},
  Row{unavailable, "unavailable", always, Sent::perhaps,
      "503", "overloaded or in maintenance"},
  Row{gateway_timeout, "gateway-timeout", always, Sent::perhaps,
      "504", "may have been executed behind the gateway; the key makes a retry safe"},
  Row{outcome_unknown, "outcome-unknown", always, Sent::perhaps,
      "502, 503 or 504 with `outcome-unknown`", "may have been executed; the key makes a retry safe"},
  Row{said_not_to_retry, "said-not-to-retry", never, Sent::perhaps,
      "5xx whose problem document has `\"retryable\": false`", "the key does not protect this request, or it is held"},
  Row{cancelled, "cancelled", never, Sent::perhaps,
      "the caller asked to stop", "the caller cancelled it"},
};
// clang-format on

consteval bool one_row_per_case_in_order() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (static_cast<std::size_t>(table[i].happened) != i) return false;
  }
  return table.back().happened == cancelled;
}
static_assert(one_row_per_case_in_order(), "row_of() finds a row by its case");

bool says_in_flight(const Reply& reply) {
  return reply.idempotency_status == "in-flight" || reply.problem_code == "in-flight" ||
         reply.problem_code == "idempotency_key_in_use";
}

bool says_unknown(const Reply& reply) {
  return reply.idempotency_status == "unknown" || reply.problem_code == "outcome-unknown";
}

Happened classify_conflict(const Reply& reply) {
  if (says_in_flight(reply)) return in_flight;
  if (says_unknown(reply)) return reply.retry_after ? unknown_for_now : unknown_held;
  return conflict;
}

Happened classify_server_error(const Reply& reply) {
  if (reply.says == Reply::Says::not_retryable) return said_not_to_retry;
  switch (reply.status) {
    case 501:
    case 505: return not_implemented;
    case 502: return says_unknown(reply) ? outcome_unknown : bad_gateway;
    case 503: return says_unknown(reply) ? outcome_unknown : unavailable;
    case 504: return says_unknown(reply) ? outcome_unknown : gateway_timeout;
    default: return server_error;
  }
}

bool is_retried(const Options& options, Happened happened) {
  switch (row_of(happened).retried) {
    case never: return false;
    case always: return true;
    case if_asked: return options.server_errors == RetryServerErrors::yes;
  }
  return false;
}

}  // namespace

std::span<const Row> rows() {
  return table;
}

const Row& row_of(Happened happened) {
  return table[static_cast<std::size_t>(happened)];
}

std::string_view name(Happened happened) {
  return row_of(happened).name;
}

Happened classify(const Reply& reply) {
  switch (reply.status) {
    case 408: return request_timeout;
    case 409: return classify_conflict(reply);
    case 422: return mismatch;
    case 425: return too_early;
    case 429: return too_many_requests;
    default: break;
  }
  if (reply.status >= 500) return classify_server_error(reply);
  if (reply.status >= 400) return client_error;
  return reply.status >= 300 ? redirect : success;
}

Duration backoff_window(const Options& options, unsigned tries) {
  Backoff windows(options.first_backoff, options.longest_backoff);
  for (unsigned i = 1; i < tries && windows.peek() < options.longest_backoff; ++i) windows.next();
  return windows.peek();
}

Next next_step(const Options& options, const Situation& situation) {
  if (!is_retried(options, situation.happened)) return {.verdict = Verdict::done};
  if (situation.tries > options.max_retries) return {.verdict = Verdict::retries_spent};
  const auto window = static_cast<std::uint64_t>(backoff_window(options, situation.tries).count());
  const Duration jitter(static_cast<Duration::rep>(situation.chance % (window + 1)));
  const Duration asked = situation.retry_after.value_or(Duration::zero());
  // Add jitter to the requested wait, so that clients that got the same one do not come back together.
  if (asked + jitter < situation.left) return {.verdict = Verdict::again, .wait = asked + jitter};
  // The requested wait fits only without jitter: the deadline is more important.
  if (asked > Duration::zero() && asked < situation.left) return {.verdict = Verdict::again, .wait = asked};
  return {.verdict = Verdict::deadline};
}

}  // namespace once::client
