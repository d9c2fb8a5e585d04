#include "admin/keys_answers.hpp"

#include <utility>

#include <fmt/format.h>

namespace once::admin {

using http::ServiceResponse;

ServiceResponse key_answer(const Problem& problem) {
  return {.status = problem.status, .content_type = "application/problem+json", .body = to_json(problem)};
}

ServiceResponse key_answer(std::string json) {
  return {.status = 200, .content_type = "application/json", .body = std::move(json)};
}

ServiceResponse refused_key(ProblemKind kind, std::string detail) {
  return key_answer(problem(kind, std::move(detail)));
}

ServiceResponse wrong_method(std::string_view allow, std::string detail) {
  ServiceResponse response = refused_key(ProblemKind::method_not_allowed, std::move(detail));
  response.fields = fmt::format("Allow: {}\r\n", allow);
  return response;
}

std::string_view query_of(const http::RequestHead& head) {
  const std::size_t at = head.target.find('?');
  return at == std::string_view::npos ? std::string_view() : head.target.substr(at + 1);
}

Problem store_problem(const Error& error) {
  if (is_bad_cursor(error))
    return problem(ProblemKind::parameter_invalid,
                   "\"cursor\": expected the \"next\" of an earlier page of this list.");
  if (error.source == ErrorSource::system) return problem(ProblemKind::overloaded, error.detail);
  return problem(ProblemKind::store_unavailable, error.detail);
}

std::string_view result_of(Effect effect, OpStatus status) {
  if (effect == Effect::done) return "done";
  if (effect == Effect::unknown) return "unknown";
  return status == OpStatus::lost ? "refused" : "failed";
}

Problem problem_of(Effect effect, const Op& op) {
  if (effect == Effect::unknown) {
    Problem unknown = problem(
        ProblemKind::outcome_unknown,
        fmt::format("It is unknown whether the change was made: look at the key before you continue. {}", op.error));
    unknown.status = 503;
    return unknown;
  }
  if (op.status == OpStatus::lost) {
    return problem(ProblemKind::claim_lost, "The key has changed in the meantime; nothing was changed.");
  }
  const auto kind = op.fault == StoreFault::full ? ProblemKind::store_full : ProblemKind::store_unavailable;
  return problem(kind, fmt::format("Nothing was changed: {}.", op.error));
}

}  // namespace once::admin
