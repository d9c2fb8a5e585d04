// How a reply goes out, and what becomes of the connection after it.
#include "base/text.hpp"
#include "gateway/connection/client.hpp"

namespace once {

using http::BodyChunk;
using http::Io;
using http::IoResult;
using http::Persistence;

namespace {

// After an answer to a request that was not read to its end. Most libraries read nothing before they have sent all of
// it.
constexpr Duration linger_limit = std::chrono::seconds(30);
constexpr Duration linger_silence = std::chrono::seconds(2);
constexpr Duration linger_draining = std::chrono::seconds(1);  // at the end of the process
constexpr std::uint64_t linger_bytes = std::uint64_t{256} << 20U;

}  // namespace

// Whatever of the request was not read cannot be told from the next one.
void Client::close_unless_read() {
  if (io_.body.ended()) return;
  io_.head.persistence = Persistence::close;
  body_unread_ = true;
}

Task<void> Client::write_problem_reply(ProblemKind kind, std::string detail, std::optional<int> retry_after) {
  Problem answer = problem(kind, std::move(detail));
  answer.retry_after_seconds = retry_after;
  co_await write_problem_reply(std::move(answer));
}

Task<void> Client::write_problem_reply(Problem answer) {
  close_unless_read();
  if (answer.kind == ProblemKind::request_timeout) {
    io_.head.persistence = Persistence::close;
    body_unread_ = true;
  }
  const Ending ending = key_ignored_ ? Ending::bypassed : Ending::rejected;
  write_problem(reply_, std::move(answer), problem_form(), request_id_, ending);
  reply_.ending = Ending::rejected;
  co_await write_reply();
}

Task<bool> Client::write_reply() {
  const bool http_1_1 = io_.head.version == http::Version::http_1_1;
  const bool streams = reply_.source != nullptr;
  const bool chunked = streams && !reply_.streamed_length && http_1_1;
  const bool known_end = !streams || chunked || reply_.streamed_length;
  keep_ = io_.head.persistence == Persistence::keep && known_end && !worker_.draining();
  std::string& head = reply_.head;
  if (!reply_.dated) head.append("Date: ").append(worker_.date()).append("\r\n");
  if (cors_) cors_->apply(head);
  if (streams && reply_.streamed_length) {
    head.append("Content-Length: ");
    append_number(head, *reply_.streamed_length);
    head.append("\r\n");
  }
  if (chunked) head.append("Transfer-Encoding: chunked\r\n");
  if (!keep_) head.append("Connection: close\r\n");
  if (keep_ && !http_1_1) head.append("Connection: keep-alive\r\n");
  head.append("\r\n");
  std::string_view body = streams || io_.head.method == Method::head ? std::string_view() : reply_.body;
  if (body.size() <= http::small_body) {
    head.append(body);
    body = {};
  }
  const IoResult sent = co_await io_.socket.write_all(head, body, io_.timeouts->body_idle);
  bool whole = sent.status == Io::ok;
  if (whole && streams) whole = co_await stream_rest(chunked);
  if (!whole) keep_ = false;
  co_return whole;
}

// A response too large to keep: recorded already, now it passes by.
Task<bool> Client::stream_rest(bool chunked) {
  char size[18];
  BodyChunk chunk{.kind = BodyChunk::Kind::data, .data = reply_.body};
  // An empty chunk would be the last one.
  if (chunk.data.empty()) chunk = co_await reply_.source->next(reply_.stream_idle);
  while (true) {
    if (chunk.kind == BodyChunk::Kind::broken || chunk.kind == BodyChunk::Kind::timed_out) {
      io_.socket.reset_on_close();  // half a body must not look like a whole one
      co_return false;
    }
    http::WriteAll::Pieces pieces{chunk.data};
    const bool last = chunk.kind == BodyChunk::Kind::end;
    if (chunked && last) pieces = {http::last_chunk};
    if (chunked && !last) {
      const std::size_t length = http::write_chunk_size(size, chunk.data.size());
      pieces = {std::string_view(size, length), chunk.data, "\r\n"};
    }
    const IoResult sent = co_await io_.socket.write_all(pieces, io_.timeouts->body_idle);
    if (sent.status != Io::ok) co_return false;
    if (last) co_return true;
    chunk = co_await reply_.source->next(reply_.stream_idle);
  }
}

// Closing with unread bytes resets the connection and may destroy the reply on its way. So the rest of the request is
// read and dropped, within limits.
Task<void> Client::linger() {
  io_.socket.shut_down_writing();
  const auto began = worker_.loop().now();
  // A client that still sends at a decent speed is on its way to the answer; one that does not makes room for others,
  // like any that sends its request slowly.
  io_.pace = {};
  while (io_.pace.bytes < linger_bytes) {
    const Duration limit = worker_.draining() ? linger_draining : linger_limit;
    if (worker_.loop().now() - began >= limit) break;
    io_.buffer.clear();
    io_.pace.begin_wait(worker_.loop().now());
    const IoResult got = co_await io_.socket.read_some(io_.buffer.room(), linger_silence);
    io_.pace.end_wait(worker_.loop().now(), got.bytes);
    if (got.status != Io::ok) break;
  }
}

}  // namespace once
