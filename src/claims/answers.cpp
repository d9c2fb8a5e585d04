#include "claims/answers.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "claims/json_members.hpp"
#include "claims/progress.hpp"
#include "core/fingerprint.hpp"
#include "core/headers.hpp"
#include "core/json_text.hpp"
#include "core/outcome.hpp"
#include "store/claim_steps.hpp"

namespace once::claims {

using http::ServiceResponse;

namespace {

constexpr std::string_view json_type = "application/json";
constexpr std::string_view value_fields = "Content-Type: application/json\r\n";
// Clients should long-poll; those that do not should not retry more often than this.
constexpr std::int64_t longest_retry_after = 5;

// Writes {"status":"…", then members one by one.
class Object {
 public:
  explicit Object(std::string_view status) : text_(R"({"status":)") { append_json_string(text_, status); }

  Object& raw(std::string_view name, std::string_view value) {
    text_ += ',';
    append_json_string(text_, name);
    text_ += ':';
    text_ += value;
    return *this;
  }
  Object& text(std::string_view name, std::string_view value) {
    std::string quoted;
    append_json_string(quoted, value);
    return raw(name, quoted);
  }
  Object& number(std::string_view name, std::uint64_t value) { return raw(name, fmt::to_string(value)); }
  Object& time(std::string_view name, Time value) { return text(name, rfc3339(value)); }

  ClaimsAnswer answer(ClaimsResult result) {
    text_ += "}\n";
    return {.response = {.status = 200, .content_type = std::string(json_type), .body = std::move(text_)},
            .result = result};
  }

 private:
  std::string text_;
};

std::uint64_t number_of(Attempt attempt) {
  return static_cast<std::uint32_t>(attempt);
}

// The time in whole seconds, at least one.
std::uint64_t seconds_until(Time then, Time now) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(then - now).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 1));
}

std::string_view content_type_of(std::string_view fields) {
  for (std::string_view line : split(fields, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_name(line.substr(0, colon), "Content-Type")) continue;
    return trim(line.substr(colon + 1));
  }
  return {};
}

// Adds JSON values unchanged; other outcomes, which only once_finish() can have recorded, as text or in hex.
void add_value(Object& object, const StoredResponse& response) {
  if (is_json(content_type_of(response.headers)) && is_json_value(response.body)) {
    object.raw("value", response.body);
  } else if (is_utf8(response.body)) {
    object.text("value", response.body);
  } else {
    object.text("value", to_hex(response.body)).text("encoding", "hex");
  }
}

// Adds the pieces that were read, and the position of the next one.
void add_progress(Object& object, const Op& read, const ProgressPlace& place) {
  std::string pieces = "[";
  for (const OutcomeBytes& chunk : read.chunks) {
    const auto piece = decode_piece(*chunk);
    if (pieces.size() > 1) pieces += ',';
    pieces += piece ? piece->data : "null";
  }
  pieces += ']';
  object.number("fence", static_cast<std::uint64_t>(read.record->fence)).number("from", place.from);
  object.number("next", place.from + read.chunks.size()).raw("progress", pieces);
}

std::string_view name_of_previous(State state) {
  return state == State::failed ? "failed" : "unknown";
}

}  // namespace

Duration unasked_lease(const Op& lookup, const Nonce& nonce) {
  const bool holds = standing_of(lookup, nonce) == Standing::started;
  return holds ? std::max<Duration>(lookup.record->lease_until - lookup.now, default_claim_lease) : default_claim_lease;
}

OutcomeBytes outcome_of(std::string_view value) {
  return std::make_shared<const std::string>(
      encode({.status = 200, .reason = "OK", .headers = value_fields, .body = value}));
}

ClaimsAnswer ClaimsAnswers::claimed(const Op& claim, std::string_view handle) const {
  if (claim.status == OpStatus::failed) return store_failed(claim);
  ONCE_ASSERT(claim.record.has_value());
  const Record& record = *claim.record;
  switch (claim.verdict) {
    case Verdict::execute: {
      Object object("acquired");
      object.text("claim", handle).number("attempt", number_of(record.attempt));
      object.number("fence", static_cast<std::uint64_t>(record.fence));
      if (record.attempt > Attempt{1}) object.text("previous", name_of_previous(record.previous_state));
      object.time("lease_until", record.lease_until).time("expires_at", record.expires_at);
      return object.answer(ClaimsResult::acquired);
    }
    case Verdict::replay: return replayed(claim);
    case Verdict::not_kept:
      return problem(ProblemKind::response_not_kept, "The work succeeded, but its value was too large to store.",
                     ClaimsResult::succeeded);
    case Verdict::mismatch:
      return problem(ProblemKind::key_mismatch, "This key was claimed before with another fingerprint.",
                     ClaimsResult::mismatch);
    case Verdict::in_flight: {
      const Time soon = claim.now + std::chrono::seconds(longest_retry_after);
      return Object("in_progress")
          .text("owner", "at_work")
          .number("attempt", number_of(record.attempt))
          .number("retry_after", seconds_until(std::min(record.lease_until, soon), claim.now))
          .answer(ClaimsResult::in_progress);
    }
    case Verdict::too_early:
      return Object("in_progress")
          .text("owner", "gone")
          .number("attempt", number_of(record.attempt))
          .number("retry_after",
                  seconds_until(saturating_add(record.started_at, claim.terms.takeover_after), claim.now))
          .answer(ClaimsResult::in_progress);
    case Verdict::held:
      return Object("unknown").number("attempt", number_of(record.attempt)).answer(ClaimsResult::unknown);
    case Verdict::gone: return problem(ProblemKind::key_expired, "This key has expired.", ClaimsResult::invalid);
  }
  ONCE_ASSERT(false);
}

ClaimsAnswer ClaimsAnswers::state_of(const Op& lookup, const ProgressPlace* place) const {
  if (lookup.status == OpStatus::failed) return store_failed(lookup);
  if (!lookup.record) return Object("none").answer(ClaimsResult::none);
  const Record& record = *lookup.record;
  const std::uint64_t attempt = number_of(record.attempt);
  switch (record.state) {
    case State::started:
    case State::unknown: {
      const bool works = owner_works(lookup);
      Object object(works ? "in_progress" : "unknown");
      if (works) object.text("owner", "at_work");
      object.number("attempt", attempt);
      const Time soon = lookup.now + std::chrono::seconds(longest_retry_after);
      if (works) object.number("retry_after", seconds_until(std::min(record.lease_until, soon), lookup.now));
      if (place != nullptr) add_progress(object, lookup, *place);
      return object.answer(works ? ClaimsResult::in_progress : ClaimsResult::unknown);
    }
    case State::succeeded:
      if (record.body_kept == BodyKept::yes) return replayed(lookup);
      return problem(ProblemKind::response_not_kept, "The work succeeded, but its value was too large to store.",
                     ClaimsResult::succeeded);
    case State::failed:
      return Object("failed")
          .number("attempt", attempt)
          .time("expires_at", record.expires_at)
          .answer(ClaimsResult::failed);
    case State::tombstone: return Object("none").answer(ClaimsResult::none);
  }
  ONCE_ASSERT(false);
}

ClaimsAnswer ClaimsAnswers::replayed(const Op& op) const {
  const Record& record = *op.record;
  const auto response = record.outcome ? decode(*record.outcome) : std::nullopt;
  if (!response) {
    return problem(ProblemKind::store_unavailable, "The recorded value cannot be read.", ClaimsResult::error);
  }
  Object object("succeeded");
  add_value(object, *response);
  return object.number("attempt", number_of(record.attempt))
      .time("expires_at", record.expires_at)
      .answer(ClaimsResult::succeeded);
}

ClaimsAnswer ClaimsAnswers::renewed(Time lease_until) const {
  return Object("renewed").time("lease_until", lease_until).answer(ClaimsResult::done);
}

ClaimsAnswer ClaimsAnswers::appended(std::uint32_t number) const {
  return Object("appended").number("next", std::uint64_t{number} + 1).answer(ClaimsResult::done);
}

ClaimsAnswer ClaimsAnswers::too_much_progress() const {
  return problem(ProblemKind::body_too_large, "The progress of one claim is limited by claims.max_body.",
                 ClaimsResult::invalid);
}

ClaimsAnswer ClaimsAnswers::succeeded(const Op& finish, std::string_view value) const {
  Object object("succeeded");
  if (finish.record) {
    const Record& record = *finish.record;
    object.time("expires_at", record.expires_at);
    const auto stands = record.outcome ? decode(*record.outcome) : std::nullopt;
    if (stands && stands->body != value) add_value(object, *stands);
    if (record.body_kept == BodyKept::no) object.raw("kept", "false");
  }
  return object.answer(ClaimsResult::done);
}

ClaimsAnswer ClaimsAnswers::failed(const Op& finish) const {
  Object object("failed");
  if (finish.record) object.time("expires_at", finish.record->expires_at);
  return object.answer(ClaimsResult::done);
}

ClaimsAnswer ClaimsAnswers::released() const {
  return Object("released").answer(ClaimsResult::done);
}

ClaimsAnswer ClaimsAnswers::lost() const {
  return problem(ProblemKind::claim_lost, "The claim has ended, has expired, or was taken over by another attempt.",
                 ClaimsResult::lost);
}

ClaimsAnswer ClaimsAnswers::invalid(std::string detail) const {
  return problem(ProblemKind::claim_invalid, std::move(detail), ClaimsResult::invalid);
}

ClaimsAnswer ClaimsAnswers::unauthorized() const {
  ClaimsAnswer answer = problem(ProblemKind::unauthorized, "Send Authorization: Bearer with a token of this gateway.",
                                ClaimsResult::unauthorized);
  answer.response.fields = "WWW-Authenticate: Bearer realm=\"once\"\r\n";
  return answer;
}

ClaimsAnswer ClaimsAnswers::not_found() const {
  return problem(ProblemKind::not_found, "GET /openapi.json describes this API.", ClaimsResult::invalid);
}

ClaimsAnswer ClaimsAnswers::not_allowed(std::string_view allow) const {
  ClaimsAnswer answer = problem(ProblemKind::method_not_allowed, fmt::format("Use {}.", allow), ClaimsResult::invalid);
  answer.response.fields = fmt::format("Allow: {}\r\n", allow);
  return answer;
}

ClaimsAnswer ClaimsAnswers::store_failed(const Op& op) const {
  const bool full = op.fault == StoreFault::full;
  ClaimsAnswer answer =
      problem(full ? ProblemKind::store_full : ProblemKind::store_unavailable,
              "It is unknown whether anything changed. Send the same request again with the same nonce; this is safe.",
              ClaimsResult::error);
  answer.response.fields = "Retry-After: 1\r\n";
  return answer;
}

ClaimsAnswer ClaimsAnswers::no_memory() const {
  ClaimsAnswer answer = problem(ProblemKind::overloaded,
                                "There is no memory for this request now. Send it again with the same nonce; this is "
                                "safe.",
                                ClaimsResult::error);
  answer.response.fields = "Retry-After: 1\r\n";
  return answer;
}

ServiceResponse ClaimsAnswers::problem_response(ProblemKind kind, std::string detail) const {
  const Problem answer = core::problem(kind, std::move(detail));
  return {.status = answer.status, .content_type = "application/problem+json", .body = to_json(answer, type_base_)};
}

ClaimsAnswer ClaimsAnswers::problem(ProblemKind kind, std::string detail, ClaimsResult result) const {
  return {.response = problem_response(kind, std::move(detail)), .result = result};
}

}  // namespace once::claims
