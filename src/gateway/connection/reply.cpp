#include "gateway/connection/reply.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/reason.hpp"

namespace once::gateway {

namespace {

void append_two(std::string& out, unsigned number) {
  out.push_back(static_cast<char>('0' + number / 10));
  out.push_back(static_cast<char>('0' + number % 10));
}

// Client libraries sleep for Retry-After inside the call; a longer sleep would look like a hang.
constexpr int longest_retry_after = 30;

// Adds when to retry, or that retrying is no use.
void add_retry_advice(Fields& fields, const Problem& problem) {
  if (problem.retryable == Retryable::no) {
    fields.add("X-Should-Retry", "false");
    if (problem.error_object) fields.add("Stripe-Should-Retry", "false");
  } else if (problem.retry_after_seconds) {
    const int seconds = std::min(*problem.retry_after_seconds, longest_retry_after);
    fields.add("Retry-After", static_cast<std::uint64_t>(seconds));
  }
}

// These responses have no body. One that was recorded must not be sent: a client would parse it as the next response.
bool has_no_body(int status) {
  return status == 204 || status == 205 || status == 304;
}

}  // namespace

bool says_length(int status) {
  return may_have_length(status) && status != 304;
}

void add_request_id(Fields& fields, std::string_view request_id, const Wording& wording) {
  fields.add("X-Request-Id", request_id);
  if (wording.error_object && !fields.has("Request-Id")) fields.add("Request-Id", request_id);
}

void append_http_date(std::string& out, Time time) {
  static constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - day));
  out.append(days[std::chrono::weekday(day).c_encoding()]).append(", ");
  append_two(out, static_cast<unsigned>(date.day()));
  out.append(" ").append(months[static_cast<unsigned>(date.month()) - 1]).append(" ");
  append_number(out, static_cast<std::uint64_t>(static_cast<int>(date.year())));
  out.push_back(' ');
  append_two(out, static_cast<unsigned>(clock.hours().count()));
  out.push_back(':');
  append_two(out, static_cast<unsigned>(clock.minutes().count()));
  out.push_back(':');
  append_two(out, static_cast<unsigned>(clock.seconds().count()));
  out.append(" GMT");
}

std::string http_date(Time time) {
  std::string text;
  append_http_date(text, time);
  return text;
}

void add_date(Fields& fields, Time now) {
  append_http_date(fields.begin_value("Date"), now);
  fields.end_value();
}

std::string_view DateText::at(Time time) {
  const Time second = std::chrono::floor<std::chrono::seconds>(time);
  if (second != second_) {
    second_ = second;
    text_ = http_date(second);
  }
  return text_;
}

void Reply::reset() {
  status = 0;
  ending = Ending::rejected;
  reason = {};
  fields.clear();
  body = {};
  outcome.reset();
  own_body.clear();
  source.reset();
  streamed_length.reset();
  attempt = Attempt{};
  known_key = false;
  reads_store = false;
  streams = false;
  came_whole = false;
  settled.reset();
  dated = false;
}

void Reply::release_memory() {
  reset();
  fields.release_memory();
  std::string().swap(own_body);
}

void write_response(Reply& reply, const StoredResponse& response, const Marks& marks) {
  reply.status = response.status;
  reply.ending = marks.ending;
  reply.body = has_no_body(response.status) ? std::string_view() : response.body;
  reply.reason = response.reason;
  Fields& fields = reply.fields;
  fields.clear();
  fields.add(FieldsView::of_lines(response.headers));
  fields.add(marks.extra);
  reply.dated = true;  // set if the extra fields have a Date, from the backend or from Once
  fields.add("Idempotency-Status", name_of(marks.ending));
  if (!marks.replay_header.empty()) {
    fields.add(FieldName::of_token(marks.replay_header), "true");
    const std::string_view original = response.original_request_id;
    if (!original.empty() && is_field_value(original)) fields.add("Original-Request-Id", original);
  }
  if (marks.expires_at) fields.add("Idempotency-Expires", reply.expires.at(*marks.expires_at));
  add_request_id(fields, marks.request_id, marks.wording);
}

void write_problem(Reply& reply, Problem problem, const ProblemForm& form, std::string_view request_id, Ending ending) {
  reply.reset();
  reply.status = problem.status;
  reply.ending = ending;
  problem.error_object = form.wording.error_object;
  reply.own_body = to_json(problem, form.type_base);
  reply.body = reply.own_body;
  reply.reason = reason_phrase(problem.status);
  Fields& fields = reply.fields;
  fields.add("Content-Type", "application/problem+json");
  fields.add("Cache-Control", "no-store");
  add_retry_advice(fields, problem);
  if (!problem.challenge.empty()) fields.add("WWW-Authenticate", problem.challenge);
  fields.add(problem.fields.view());
  if (ending != Ending::rejected && ending != Ending::passed) fields.add("Idempotency-Status", name_of(ending));
  if (!request_id.empty()) add_request_id(fields, request_id, form.wording);
}

}  // namespace once::gateway
