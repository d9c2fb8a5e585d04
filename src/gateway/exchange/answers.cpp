#include "gateway/exchange/answers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace once::gateway {

namespace {

constexpr std::int64_t one_day = 86'400;

int whole_seconds(Duration duration) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(duration).count();
  return static_cast<int>(std::clamp<std::int64_t>(seconds, 1, one_day));
}

}  // namespace

void Answers::write(Problem answer, Ending ending) {
  write_problem(reply_, std::move(answer), {.type_base = errors_base_, .wording = policy_.wording}, request_id_,
                ending);
}

void Answers::problem(ProblemKind kind, std::string detail, Ending ending) {
  write(core::problem(kind, std::move(detail)), ending);
}

void Answers::mismatch() {
  Problem answer = core::problem(ProblemKind::key_mismatch, "This key was used before with a different request.");
  answer.status = policy_.wording.mismatch_status;
  answer.code = policy_.wording.mismatch_code;
  answer.name = policy_.wording.mismatch_type;
  answer.title = policy_.wording.mismatch_title;
  write(std::move(answer), Ending::mismatch);
}

void Answers::in_flight() {
  Problem answer = core::problem(ProblemKind::in_flight, policy_.wording.in_flight_detail);
  answer.status = policy_.wording.in_flight_status;
  answer.code = policy_.wording.in_flight_code;
  answer.retry_after_seconds = retry_soon_seconds;
  write(std::move(answer), Ending::in_flight);
}

void Answers::not_kept() {
  problem(ProblemKind::response_not_kept,
          "The request succeeded, but its response was not kept, so it cannot be replayed.", Ending::replayed);
}

void Answers::expired() {
  problem(ProblemKind::key_expired, "This key was used before and has expired.", Ending::rejected);
}

void Answers::not_found(std::string detail) {
  problem(ProblemKind::key_not_found, std::move(detail), Ending::rejected);
}

void Answers::no_memory() {
  Problem answer = core::problem(ProblemKind::overloaded,
                                 "The response is recorded, but there is no memory to send it now. Retry later.");
  answer.retry_after_seconds = retry_soon_seconds;
  write(std::move(answer), Ending::rejected);
}

void Answers::too_early(Time takeover_at, Time now) {
  Problem answer =
      core::problem(ProblemKind::outcome_unknown,
                    "It is unknown whether this request was executed; a retry may execute it again after " +
                        http_date(takeover_at) + ".");
  answer.retryable = Retryable::yes;
  answer.retry_after_seconds = whole_seconds(takeover_at - now);
  write(std::move(answer), Ending::unknown);
}

void Answers::held() {
  Problem answer =
      core::problem(ProblemKind::outcome_unknown,
                    "It is unknown whether this request was executed. Do not retry: the key is held until an "
                    "operator resolves it.");
  answer.retryable = Retryable::no;
  write(std::move(answer), Ending::unknown);
}

void Answers::unknown(int status, std::string detail) {
  Problem answer = core::problem(ProblemKind::outcome_unknown, std::move(detail));
  answer.status = status;
  switch (policy_.on_unknown) {
    case OnUnknown::retry:
      answer.retryable = Retryable::yes;
      answer.retry_after_seconds = retry_soon_seconds;
      break;
    case OnUnknown::takeover:
      answer.retryable = Retryable::yes;
      answer.retry_after_seconds = whole_seconds(policy_.takeover_after);
      break;
    case OnUnknown::hold: answer.retryable = Retryable::no; break;
  }
  write(std::move(answer), Ending::unknown);
}

void Answers::store_fault(StoreFault fault) {
  Problem answer =
      fault == StoreFault::full
          ? core::problem(ProblemKind::store_full, "The store is full and accepts no new keys; nothing was executed.")
          : core::problem(ProblemKind::store_unavailable, "The store does not answer; nothing was executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  write(std::move(answer), Ending::rejected);
}

void Answers::store_fault_at_work() {
  Problem answer = core::problem(ProblemKind::store_unavailable,
                                 "The store does not answer, and an earlier request with this key has been sent to the "
                                 "backend. This request was not executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  write(std::move(answer), Ending::rejected);
}

void Answers::upstream_busy(Ending ending) {
  Problem answer =
      core::problem(ProblemKind::upstream_busy, "No connection to the backend was free in time; nothing was executed.");
  answer.retry_after_seconds = retry_soon_seconds;
  write(std::move(answer), ending);
}

void Answers::refused(Problem answer) {
  write(std::move(answer), Ending::rejected);
}

void Answers::not_reached(Ending ending) {
  problem(ProblemKind::bad_gateway, "The backend could not be reached; nothing was executed.", ending);
}

}  // namespace once::gateway
