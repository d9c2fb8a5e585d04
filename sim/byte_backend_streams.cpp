// Event streams of the simulated backend. Every byte is determined by its execution and its position, so a reader that
// gets a wrong one notices.
#include <algorithm>

#include <fmt/format.h>

#include "sim/byte_backend.hpp"
#include "sim/byte_marks.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

// Makes text in which nearby positions differ.
std::string filling(std::size_t size) {
  std::string text;
  while (text.size() < size) text += fmt::format(".{}", text.size());
  text.resize(size);
  return text;
}

}  // namespace

StreamBook::Script ByteBackend::stream_script(const Message& request, const Asked& asked, unsigned number) {
  Draw& draw = world_.draw;
  StreamBook::Script script{.asked = asked, .body = {}, .is_stream = true};
  const std::string what = fmt::format("{} {} execution={} attempt={}", token_of(asked.caller), body_of(asked), number,
                                       request.field("Idempotency-Attempt"));
  const std::size_t large = setup_.bytes.streams.large_event;
  for (std::uint64_t count = draw.between(1, 8); count > 0; --count) {
    const std::size_t size = large > 0 && draw.one_in(3) ? large : draw.below(std::uint64_t{80});
    script.body += fmt::format("id: {}\ndata: {} event={} {}\n\n", script.events.size() + 1, what,
                               script.events.size() + 1, filling(size));
    script.events.push_back(script.body.size());
  }
  script.body.append(":").append(body_end);
  return script;
}

std::string ByteBackend::stream_head(const Message& request, unsigned number, const Streaming& streaming) {
  const std::string caller = token_of(caller_in(request).value_or(0));
  std::string text;
  if (happens(setup_.bytes.interim)) text += fmt::format("HTTP/1.1 103 Early Hints\r\nX-Caller: {}\r\n\r\n", caller);
  text += fmt::format("HTTP/1.1 200 Status\r\nX-Caller: {}\r\n{}: {}\r\nContent-Type: {}\r\n", caller, execution_field,
                      number, world_.draw.one_in(4) ? "application/x-ndjson" : "text/event-stream; charset=utf-8");
  if (streaming.framing != Message::Framing::until_close) text += fmt::format("{}: yes\r\n", framed_field);
  if (streaming.framing == Message::Framing::chunked) text += "Transfer-Encoding: chunked\r\n";
  if (streaming.framing == Message::Framing::length) {
    text += fmt::format("Content-Length: {}\r\n", streaming.body.size());
  }
  if (streaming.closes && world_.draw.one_in(2)) text += "Connection: close\r\n";
  return text + "\r\n";
}

void ByteBackend::stream(Connection& connection, const Message& request, const Asked& asked, unsigned number) {
  Draw& draw = world_.draw;
  auto streaming = std::make_shared<Streaming>();
  StreamBook::Script script = stream_script(request, asked, number);
  streaming->body = script.body;
  streams_.begins(number, std::move(script));
  streaming->stop = streaming->body.size();
  if (draw.one_in(4)) streaming->framing = Message::Framing::length;
  if (happens(setup_.bytes.answers_until_close)) streaming->framing = Message::Framing::until_close;
  streaming->closes = streaming->framing == Message::Framing::until_close || happens(setup_.bytes.closes);
  if (happens(setup_.bytes.streams.breaks)) {
    streaming->end = draw.one_of({Plan::truncates, Plan::truncates, Plan::dies, Plan::malformed});
  } else if (happens(setup_.bytes.streams.hangs)) {
    streaming->end = Plan::hangs;
  }
  if (streaming->end != Plan::answers) streaming->stop = draw.below(streaming->body.size());
  streaming->serving = ++connection.served;
  Connection* const to = &connection;
  const Duration takes = draw.between(0ms, healed_ ? 20ms : setup_.backend_takes);
  world_.after(takes, [this, to, number, streaming, head = stream_head(request, number, *streaming)] {
    if (!to->peer || !to->peer->open()) return;
    to->peer->send(head);
    to->streaming = number;
    stream_on(*to, streaming);
  });
}

void ByteBackend::stream_on(Connection& connection, const std::shared_ptr<Streaming>& streaming) {
  if (!connection.peer || !connection.peer->open()) return;
  const std::size_t left = streaming->stop - streaming->at;
  if (left == 0) return end_stream(connection, *streaming);
  Draw& draw = world_.draw;
  const std::size_t size = draw.between(1, draw.one_in(4) ? left : std::min<std::size_t>(left, 300));
  const std::string_view piece = std::string_view(streaming->body).substr(streaming->at, size);
  streaming->at += size;
  connection.piece_at = world_.now();
  // Nothing is left to stream. In chunks the last one is still to come, from end_stream().
  if (streaming->at == streaming->stop) connection.streaming.reset();
  const bool chunked = streaming->framing == Message::Framing::chunked;
  connection.peer->send(chunked ? fmt::format("{:x}\r\n{}\r\n", size, piece) : std::string(piece));
  Connection* const to = &connection;
  world_.after(draw.between(0ms, healed_ ? 20ms : 4s), [this, to, streaming] { stream_on(*to, streaming); });
}

void ByteBackend::end_stream(Connection& connection, const Streaming& streaming) {
  const bool chunked = streaming.framing == Message::Framing::chunked;
  connection.streaming.reset();
  switch (streaming.end) {
    case Plan::hangs: return;
    case Plan::dies: return connection.peer->reset();
    case Plan::malformed:
      // Only chunked framing can be malformed here.
      if (chunked) connection.peer->send("zz\r\n");
      return connection.peer->close();
    case Plan::truncates: return connection.peer->close();
    case Plan::answers:
    case Plan::fails:
    case Plan::switches: break;
  }
  if (chunked) connection.peer->send("0\r\n\r\n");
  if (streaming.closes && connection.served == streaming.serving) connection.peer->close();
}

std::optional<unsigned> ByteBackend::streams_on(std::uint64_t link) const {
  const auto at = connections_.find(link);
  if (at == connections_.end()) return std::nullopt;
  const Connection& connection = at->second;
  const bool silent = world_.now() - connection.piece_at > setup_.bytes.streams.idle / 2;
  return connection.peer && connection.peer->open() && !silent ? connection.streaming : std::nullopt;
}

}  // namespace once::sim
