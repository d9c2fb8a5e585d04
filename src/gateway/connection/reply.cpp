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

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void append_status_line(std::string& out, int status, std::string_view reason) {
  out.append("HTTP/1.1 ");
  append_number(out, static_cast<std::uint64_t>(status));
  out.push_back(' ');
  out.append(reason).append("\r\n");
}

bool has_field(std::string_view fields, std::string_view name) {
  while (!fields.empty()) {
    const std::size_t end = std::min(fields.find('\n'), fields.size() - 1) + 1;
    const std::string_view line = fields.substr(0, end);
    if (line.size() > name.size() && line[name.size()] == ':' && same_name(line.substr(0, name.size()), name)) {
      return true;
    }
    fields.remove_prefix(end);
  }
  return false;
}

// Client libraries sleep for Retry-After inside the call; a longer sleep would look like a hang.
constexpr int longest_retry_after = 30;

// Adds when to retry, or that retrying is no use.
void append_retry_advice(std::string& head, const Problem& problem) {
  if (problem.retryable == Retryable::no) {
    append_field(head, "X-Should-Retry", "false");
    if (problem.error_object) append_field(head, "Stripe-Should-Retry", "false");
  } else if (problem.retry_after_seconds) {
    head.append("Retry-After: ");
    append_number(head, static_cast<std::uint64_t>(std::min(*problem.retry_after_seconds, longest_retry_after)));
    head.append("\r\n");
  }
}

// These responses have no body. One that was recorded must not be sent: a client would parse it as the next response.
bool has_no_body(int status) {
  return status == 204 || status == 205 || status == 304;
}

// The Content-Length of a 304 would be that of the original body, whose length is not recorded.
bool says_length(int status) {
  return may_have_length(status) && status != 304;
}

}  // namespace

void append_request_id(std::string& head, std::string_view request_id, const Wording& wording) {
  append_field(head, "X-Request-Id", request_id);
  if (wording.error_object && !has_field(head, "Request-Id")) append_field(head, "Request-Id", request_id);
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
  head.clear();
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
  std::string().swap(head);
  std::string().swap(own_body);
}

void write_response(Reply& reply, const StoredResponse& response, const Marks& marks) {
  reply.status = response.status;
  reply.ending = marks.ending;
  reply.body = has_no_body(response.status) ? std::string_view() : response.body;
  std::string& head = reply.head;
  head.clear();
  append_status_line(head, response.status, response.reason);
  head.append(response.headers).append(marks.extra);
  reply.dated = true;  // set if the extra fields have a Date, from the backend or from Once
  append_field(head, "Idempotency-Status", name_of(marks.ending));
  if (!marks.replay_header.empty()) {
    append_field(head, marks.replay_header, "true");
    if (!response.original_request_id.empty()) {
      append_field(head, "Original-Request-Id", response.original_request_id);
    }
  }
  if (marks.expires_at) {
    head.append("Idempotency-Expires: ");
    head.append(reply.expires.at(*marks.expires_at));
    head.append("\r\n");
  }
  append_request_id(head, marks.request_id, marks.wording);
  if (!reply.source && says_length(response.status)) {
    head.append("Content-Length: ");
    append_number(head, reply.body.size());
    head.append("\r\n");
  }
}

void write_problem(Reply& reply, Problem problem, const ProblemForm& form, std::string_view request_id, Ending ending) {
  reply.reset();
  reply.status = problem.status;
  reply.ending = ending;
  problem.error_object = form.wording.error_object;
  reply.own_body = to_json(problem, form.type_base);
  reply.body = reply.own_body;
  std::string& head = reply.head;
  append_status_line(head, problem.status, reason_phrase(problem.status));
  head.append("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n");
  append_retry_advice(head, problem);
  if (!problem.challenge.empty()) append_field(head, "WWW-Authenticate", problem.challenge);
  head.append(problem.fields);
  if (ending != Ending::rejected && ending != Ending::passed) {
    append_field(head, "Idempotency-Status", name_of(ending));
  }
  if (!request_id.empty()) append_request_id(head, request_id, form.wording);
  head.append("Content-Length: ");
  append_number(head, reply.own_body.size());
  head.append("\r\n");
}

}  // namespace once::gateway
