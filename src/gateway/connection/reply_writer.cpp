#include "gateway/connection/reply_writer.hpp"

#include "base/sometimes.hpp"
#include "core/headers.hpp"
#include "core/reason.hpp"

namespace once::gateway {

using http::BodyChunk;
using http::Io;
using http::IoResult;
using http::Persistence;
using http::Transfer;

namespace {

// A client that does not read must not delay the exchange; it misses the interim response.
constexpr Duration interim_limit = std::chrono::milliseconds(100);

}  // namespace

void ReplyWriter::release_memory() {
  reply_.release_memory();
  std::string().swap(head_);
}

Task<void> ReplyWriter::write_problem(RequestContext& request, Problem answer) {
  request.close_unless_read();
  if (answer.kind == ProblemKind::request_timeout) request.close_unread();
  const Ending ending = request.says_ignored ? Ending::bypassed : Ending::rejected;
  const ProblemForm form{.type_base = worker_.shared().errors_base, .wording = *request.wording};
  gateway::write_problem(reply_, std::move(answer), form, request.id(), ending);
  reply_.ending = Ending::rejected;
  co_await write(request);
}

Task<void> ReplyWriter::write_no_content(RequestContext& request) {
  reply_.reset();
  reply_.status = 204;
  reply_.ending = Ending::passed;
  reply_.reason = reason_phrase(reply_.status);
  reply_.fields.add("X-Request-Id", request.id());
  request.close_unless_read();
  co_await write(request);
}

Task<void> ReplyWriter::refuse_overload(RequestContext& request, Overload limit) {
  worker_.metrics().overloaded[static_cast<std::size_t>(limit)].add();
  Problem answer =
      problem(ProblemKind::overloaded,
              limit == Overload::spool
                  ? "The gateway has no room on its disk for this request body; nothing was executed. Retry later."
                  : "The gateway has reached its limit of concurrent requests or of memory for bodies. Retry later.");
  answer.retry_after_seconds = 1;
  co_await write_problem(request, std::move(answer));
}

http::Framing ReplyWriter::framing(bool chunked) const {
  using Kind = http::Framing::Kind;
  if (chunked) return {.kind = Kind::chunked};
  if (reply_.source) {
    if (!reply_.streamed_length) return {.kind = Kind::until_close};
    return {.kind = Kind::length, .length = *reply_.streamed_length};
  }
  if (!says_length(reply_.status)) return {};
  return {.kind = Kind::length, .length = reply_.body.size()};
}

http::ConnectionField ReplyWriter::connection_field(bool keep) const {
  if (!keep) return http::ConnectionField::close;
  return io_.head.version == http::Version::http_1_1 ? http::ConnectionField::none : http::ConnectionField::keep_alive;
}

Task<http::Transfer> ReplyWriter::write(RequestContext& request) {
  const bool http_1_1 = io_.head.version == http::Version::http_1_1;
  const bool streams = reply_.source != nullptr;
  const bool chunked = streams && !reply_.streamed_length && http_1_1;
  const bool known_end = !streams || chunked || reply_.streamed_length;
  request.keep = io_.head.persistence == Persistence::keep && known_end && !worker_.draining();
  if (!reply_.dated) reply_.fields.add("Date", worker_.date());
  if (request.cors) request.cors->apply(reply_.fields);
  std::string& head = head_;
  head.clear();
  http::append_head(head, {.status = reply_.status,
                           .reason = reply_.reason,
                           .fields = reply_.fields.view(),
                           .framing = framing(chunked),
                           .connection = connection_field(request.keep)});
  std::string_view body = streams || io_.head.method == Method::head ? std::string_view() : reply_.body;
  if (body.size() <= http::small_body) {
    head.append(body);
    body = {};
  }
  const IoResult sent = co_await io_.socket.write_all(head, body, io_.timeouts->body_idle);
  Transfer transfer = sent.status == Io::ok ? Transfer::whole : Transfer::cut_off;
  const bool has_rest = streams && io_.head.method != Method::head;
  if (transfer == Transfer::whole && has_rest) transfer = co_await stream_rest(chunked);
  if (transfer == Transfer::cut_off) request.keep = false;
  request.replied = transfer == Transfer::whole;
  co_return transfer;
}

// Streams the rest of a body from the backend or from the store.
Task<http::Transfer> ReplyWriter::stream_rest(bool chunked) {
  char size[18];
  // If only the connection's end marks the end of the body, make sure that a killed process leaves a reset and not a
  // clean end.
  const bool ends_by_close = !chunked && !reply_.streamed_length && !io_.secure;
  if (ends_by_close) io_.socket.reset_on_close();
  BodyChunk chunk{.kind = BodyChunk::Kind::data, .data = reply_.body};
  // Skip an empty chunk: it would be written as the last one.
  if (chunk.data.empty()) chunk = co_await reply_.source->next(reply_.stream_idle);
  while (true) {
    if (chunk.kind == BodyChunk::Kind::broken || chunk.kind == BodyChunk::Kind::timed_out) {
      sometimes<"connection: half a response is reset">(!reply_.streams || !chunked);
      // Half a body must not look complete, so reset the connection. A chunked stream that lacks its last chunk is
      // visibly incomplete, and a reset would destroy bytes in flight.
      if (!reply_.streams || !chunked) io_.socket.reset_on_close();
      co_return Transfer::cut_off;
    }
    http::WriteAll::Pieces pieces{chunk.data};
    const bool last = chunk.kind == BodyChunk::Kind::end;
    if (chunked && last) pieces = {http::last_chunk};
    if (chunked && !last) {
      const std::size_t length = http::write_chunk_size(size, chunk.data.size());
      pieces = {std::string_view(size, length), chunk.data, "\r\n"};
    }
    const IoResult sent = co_await io_.socket.write_all(pieces, io_.timeouts->body_idle);
    if (sent.status != Io::ok) co_return Transfer::cut_off;
    if (last && ends_by_close) io_.socket.end_on_close();
    if (last) co_return Transfer::whole;
    chunk = co_await reply_.source->next(reply_.stream_idle);
  }
}

Task<void> ReplyWriter::interim(const http::ResponseHead& head) {
  if (io_.head.version == http::Version::http_1_0) co_return;
  Fields fields;
  for (const http::Field& field : head.fields) {
    if (!head.hop_by_hop(field.name) && !same_name(field.name, "Content-Length")) fields.add(field);
  }
  std::string text;
  http::append_head(text, {.status = head.status, .reason = head.reason, .fields = fields.view()});
  const IoResult sent = co_await io_.socket.write_all(text, interim_limit);
  if (sent.status == Io::ok || sent.bytes == 0) co_return;
  sometimes<"connection: half an interim response">();
  // A partly written interim response breaks the connection. The request continues; the client can look up its result.
  io_.socket.reset_on_close();
  io_.socket.cancel();
}

}  // namespace once::gateway
