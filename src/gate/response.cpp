#include "gate/response.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/reason.hpp"
#include "gate/head_text.hpp"
#include "http/upstream.hpp"

namespace once::gate {

namespace {

constexpr int lowest_status = 200;
constexpr int highest_status = 599;

Settled settled_of(const std::optional<gateway::ClaimEnd>& settled) {
  if (!settled) return Settled::none;
  switch (*settled) {
    case gateway::ClaimEnd::succeeded: return Settled::succeeded;
    case gateway::ClaimEnd::failed: return Settled::failed;
    case gateway::ClaimEnd::unknown: return Settled::unknown;
    case gateway::ClaimEnd::released: return Settled::released;
    case gateway::ClaimEnd::lost: return Settled::lost;
    case gateway::ClaimEnd::unrecorded: return Settled::unrecorded;
  }
  return Settled::none;
}

// The handler sends the body itself, unless the reply is not its response but a problem, or an outcome committed in its
// own transaction.
bool is_body_of_handler(const gateway::Reply& reply, const PreparedResponse* made) {
  return made != nullptr && made->body_kept == BodyKept::no && reply.body.data() == made->body.data();
}

}  // namespace

Ending ending_of(gateway::Ending ending) {
  switch (ending) {
    case gateway::Ending::passed: return Ending::passed;
    case gateway::Ending::executed: return Ending::executed;
    case gateway::Ending::replayed:
    case gateway::Ending::attached: return Ending::replayed;  // to a live stream: gates have none
    case gateway::Ending::stopped: return Ending::rejected;   // of a stopped stream: gates have none
    case gateway::Ending::in_flight: return Ending::in_flight;
    case gateway::Ending::mismatch: return Ending::mismatch;
    case gateway::Ending::unknown: return Ending::unknown;
    case gateway::Ending::bypassed: return Ending::bypassed;
    case gateway::Ending::rejected: return Ending::rejected;
  }
  return Ending::rejected;
}

std::vector<Field> fields_of(FieldsView fields) {
  std::vector<Field> copies;
  for (const core::Field& field : fields) {
    copies.push_back({.name = std::string(field.name), .value = std::string(field.value)});
  }
  return copies;
}

std::expected<std::unique_ptr<PreparedResponse>, std::string> prepare(const Response& response) {
  if (response.status < lowest_status || response.status > highest_status) {
    return std::unexpected("the status must be from 200 to 599");
  }
  auto prepared = std::make_unique<PreparedResponse>();
  std::string& text = prepared->text;
  text.append("HTTP/1.1 ");
  append_number(text, static_cast<std::uint64_t>(response.status));
  const std::string_view reason = response.reason.empty() ? reason_phrase(response.status) : response.reason;
  if (!is_one_line(reason)) return std::unexpected("the reason phrase is not one line of text");
  text.append(" ").append(reason).append("\r\n");
  for (const Field& field : response.fields) {
    if (!is_one_line(field.name) || !is_one_line(field.value)) {
      return std::unexpected("a field of the response is not one line of text");
    }
    prepared->dated = prepared->dated || same_name(field.name, "Date");
    if (same_name(field.name, "Content-Length")) prepared->length = field.value;
    // The body is complete here, however it would be framed on a connection.
    if (!is_framing(field.name)) append_line(text, field);
  }
  text.append("\r\n");
  const auto parsed = http::parse(text, http::response_head_limits, Method::post, prepared->head);
  if (parsed.parsed != http::Parsed::complete) {
    return std::unexpected(std::string("the head of the response is not valid: ") + describe(parsed.error));
  }
  prepared->body = response.body;
  prepared->body_kept = response.body_kept;
  return prepared;
}

Reply sendable(const gateway::Reply& reply, const PreparedResponse* made) {
  Reply sent;
  sent.status = reply.status;
  sent.ending = ending_of(reply.ending);
  sent.settled = settled_of(reply.settled);
  sent.attempt = static_cast<std::uint32_t>(reply.attempt);
  sent.reason = reply.reason;
  sent.body_is_yours = is_body_of_handler(reply, made);
  const bool keeps_date = made != nullptr && made->dated && reply.own_body.empty();
  for (Field& field : fields_of(reply.fields.view())) {
    if (same_name(field.name, "Date") && !keeps_date) continue;  // written by the host program's server
    sent.fields.push_back(std::move(field));
  }
  if (!sent.body_is_yours) {
    sent.body = reply.body;
    if (gateway::says_length(reply.status)) {
      sent.fields.push_back({.name = "Content-Length", .value = std::to_string(reply.body.size())});
    }
  } else if (made->length) {
    sent.fields.push_back({.name = "Content-Length", .value = *made->length});
  }
  return sent;
}

}  // namespace once::gate
