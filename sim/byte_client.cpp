#include "sim/byte_client.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "gateway/limits/shared_outcomes.hpp"
#include "sim/byte_marks.hpp"
#include "sim/loose_paths.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

constexpr std::string_view smuggled = "GET /smuggled HTTP/1.1\r\nHost: h0.test\r\n\r\n";

// Requests that must be refused, each followed by one that must never be seen.
constexpr std::array<std::string_view, 10> bad_requests = {
    "POST /pass/bad HTTP/1.1\r\nHost: h0.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
    "POST /pass/bad HTTP/1.1\r\nHost: h0.test\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /pass/bad HTTP/1.1\r\nHost: h0.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST /pass/bad HTTP/1.1\r\nHost: h0.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST /pass/bad HTTP/1.0\r\nHost: h0.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "GET  /pass/bad HTTP/1.1\r\nHost: h0.test\r\n\r\n",
    "GET /pass/bad HTTP/1.1\r\nHost : h0.test\r\n\r\n",
    "GET /pass/bad HTTP/1.1\r\nHost: h0.test\r\nHost: h1.test\r\n\r\n",
    "GET /pass/bad HTTP/1.1\r\n\r\n",
    "POST /pass/bad HTTP/1.1\r\nHost: h0.test\r\nContent-Length: -1\r\n\r\n",
};

std::string chunked_text(std::string_view body, Draw& draw) {
  std::string text;
  while (!body.empty()) {
    const std::size_t size = draw.between(1, body.size());
    text += fmt::format("{:x}\r\n{}\r\n", size, body.substr(0, size));
    body.remove_prefix(size);
  }
  return text + "0\r\n\r\n";
}

}  // namespace

ByteClients::Connection* ByteClients::open() {
  const auto from = Network::address(fmt::format("198.51.{}.{}", parts_.number, connections_.size() % 200 + 1), 40'000);
  auto peer = parts_.network.connect(parts_.gateway, from);
  if (!peer) return nullptr;
  Connection& connection = connections_.emplace_back();
  connection.link = peer->link();
  connection.peer = std::move(peer);
  by_link_[connection.link] = &connection;
  Connection* const made = &connection;
  connection.peer->on_bytes = [this, made](std::string_view bytes) {
    made->seen.feed(bytes);
    if (!made->seen.problem().empty()) wrong(*made, made->seen.problem());
    if (!made->over && made->seen.in_body()) reads_part(*made);
  };
  connection.peer->on_end = [this, made] {
    made->ends_cleanly = true;
    check_tunnel_end(*made);
    made->seen.end();
    ended(*made);
  };
  connection.peer->on_reset = [this, made] { ended(*made); };
  connection.seen.on_message = [this, made](const Message& response) { answered(*made, response); };
  connection.seen.on_head = [this, made](const Message& response) {
    if (response.status < 200 && !made->waiting.empty()) check(*made, response, made->waiting.front().caller, false);
  };
  connection.seen.on_tunnel = [this, made](std::string_view bytes) {
    const unsigned caller = made->waiting.empty() ? 0 : made->waiting.front().caller;
    const std::string foreign = foreign_token(bytes, caller);
    if (!foreign.empty()) wrong(*made, "a tunnel carries bytes of " + foreign);
  };
  connection.sent.on_head = [this, made](const Message&) { made->head_at = world().now(); };
  connection.sent.on_message = [this, made](const Message& response) {
    look_at_sent(*made, response);
    parts_.streams.sent_end(response);
    if (const auto& stop = made->owed.front().stop) stop_answered(*stop, response);
    made->owed.pop_front();
    made->checked = 0;
  };
  return made;
}

// A connection for one more request; null: no gateway listens.
ByteClients::Connection* ByteClients::pick(bool may_share) {
  for (Connection& connection : connections_) {
    if (!may_share || connection.over || connection.last || connection.writing) continue;
    const bool idle = connection.waiting.empty();
    if (idle ? world().draw.percent(parts_.setup.bytes.reuses) : happens(parts_.setup.bytes.pipelines)) {
      return &connection;
    }
  }
  return open();
}

void ByteClients::wrong(const Connection& connection, const std::string& what) {
  parts_.history.violated(fmt::format("connection {}: {}", connection.link, what));
}

void ByteClients::ended(Connection& connection) {
  if (connection.over) return;
  connection.over = true;
  // Also checks an incomplete response.
  if (connection.seen.in_body() && !connection.waiting.empty()) {
    check(connection, connection.seen.message(), connection.waiting.front().caller, false);
    report_part(connection);
  }
  connection.waiting.clear();
  connection.peer->close();
}

// Reports a response that was visibly cut off.
void ByteClients::report_part(Connection& connection) {
  const Waiting first = std::move(connection.waiting.front());
  const Message& part = connection.seen.message();
  if (!first.asked) return;
  parts_.streams.seen(*first.asked, part);
  const bool streams = parts_.streams.is_recorded_stream(part) || part.has("Idempotency-Attempt");
  if (streams && first.answered) first.answered(part, Received::part, first.form);
}

void ByteClients::reads_part(Connection& connection) {
  if (connection.waiting.empty()) return;
  Waiting& reader = connection.waiting.front();
  const std::size_t size = connection.seen.message().body.size();
  if (reader.stops_reading && size >= *reader.stops_reading) {
    reader.stops_reading.reset();
    connection.peer->set_reading(false);
    Connection* const to = &connection;
    world().after(world().draw.between(100ms, 20s), [to] {
      if (!to->over) to->peer->set_reading(true);
    });
  }
  if (!reader.leaves_at || size < *reader.leaves_at) return;
  if (reader.asked) parts_.streams.seen(*reader.asked, connection.seen.message());
  drop(connection, world().draw.one_in(2));
}

void ByteClients::drop(Connection& connection, bool resets) {
  if (connection.over) return;
  connection.over = true;
  connection.waiting.clear();
  resets ? connection.peer->reset() : connection.peer->close();
}

void ByteClients::heal() {
  healed_ = true;
  leave();
}

void ByteClients::leave() {
  for (Connection& connection : connections_) drop(connection, false);
}

void ByteClients::check(Connection& connection, const Message& response, unsigned caller, bool whole) {
  const std::string foreign = foreign_token(response.head_text + response.body, caller);
  if (!foreign.empty()) wrong(connection, fmt::format("{} was given bytes of {}", token_of(caller), foreign));
  const bool unframed = response.framing == Message::Framing::until_close;
  const bool cut = unframed && (gateway_died_ || connection.peer->cut_off());
  const bool has_end = response.has(framed_field) && response.framing != Message::Framing::none && !cut;
  if (whole && has_end && !parts_.streams.is_whole(response).value_or(response.body.ends_with(body_end))) {
    wrong(connection, "a part of a response looks like a whole one");
  }
}

// A backend that resets a tunnel has lost bytes, so its client must not see a clean end.
void ByteClients::check_tunnel_end(const Connection& connection) {
  if (connection.over || gateway_died_ || healed_ || !connection.seen.in_tunnel() || connection.waiting.empty()) return;
  if (!parts_.reset_tunnels.contains(connection.waiting.front().caller)) return;
  wrong(connection, "a tunnel that its backend has reset ends cleanly");
}

void ByteClients::answered(Connection& connection, const Message& response) {
  if (connection.waiting.empty()) return;
  const Waiting first = std::move(connection.waiting.front());
  connection.waiting.pop_front();
  check(connection, response, first.caller, true);
  const bool closes = response.field("Connection") == "close";
  connection.last = connection.last || closes;
  if (first.asked) parts_.streams.seen(*first.asked, response);
  if (first.answered) first.answered(response, Received::whole, first.form);
  // After the faults have ended, no client holds connections that others need.
  const bool leaves = healed_ ? connection.waiting.empty() : closes && world().draw.one_in(2);
  if (leaves) drop(connection, false);
}

ByteClients::Manner ByteClients::draw_manner() {
  const ByteSetup& setup = parts_.setup.bytes;
  Manner manner;
  manner.splits = happens(setup.splits);
  manner.stalls = happens(setup.stalls);
  if (happens(setup.leaves)) manner.leaves_at = world().draw.below(400);
  manner.leaves_after = happens(setup.leaves_after);
  manner.half_closes = happens(setup.half_closes);
  manner.reads_slowly = happens(setup.reads_slowly);
  return manner;
}

std::string ByteClients::framed(std::string head, std::string_view body, bool old, bool& continues) {
  Draw& draw = world().draw;
  if (old) {
    const std::size_t at = head.find("HTTP/1.1");
    head.replace(at, 8, "HTTP/1.0");
    return fmt::format("{}Content-Length: {}\r\n\r\n{}", head, body.size(), body);
  }
  continues = happens(parts_.setup.bytes.expects);
  if (continues) head += "Expect: 100-continue\r\n";
  if (happens(parts_.setup.bytes.chunks)) {
    return head + "Transfer-Encoding: chunked\r\n\r\n" + chunked_text(body, draw);
  }
  return fmt::format("{}Content-Length: {}\r\n\r\n{}", head, body.size(), body);
}

void ByteClients::expect(Connection& connection, std::string_view method, unsigned caller, Answered answered) {
  expect(connection, method, Waiting{.caller = caller, .answered = std::move(answered)}, {});
}

void ByteClients::expect(Connection& connection, std::string_view method, Waiting waiting, const Resume& resume) {
  connection.seen.expect(std::string(method));
  connection.sent.expect(std::string(method));
  connection.owed.push_back({.caller = waiting.caller, .resume = resume, .stop = {}});
  connection.waiting.push_back(std::move(waiting));
}

void ByteClients::read_as_drawn(Waiting& waiting) {
  Draw& draw = world().draw;
  const StreamSetup& setup = parts_.setup.bytes.streams;
  const std::size_t most = std::max<std::size_t>(1000, setup.large_event);
  if (happens(setup.leaves_reading)) waiting.leaves_at = draw.below(most);
  if (happens(setup.stops_reading)) waiting.stops_reading = draw.below(most);
}

void ByteClients::ask(const Asked& asked, Answered answered) {
  Connection* connection = pick(true);
  if (connection == nullptr) return;
  const std::size_t routes = parts_.setup.routes.size();
  const WireName name = wire_name(asked.operation, routes);
  const bool old = happens(parts_.setup.bytes.old);
  Manner manner = draw_manner();
  Waiting waiting{.caller = asked.caller, .answered = std::move(answered), .asked = asked};
  Resume resume;
  if (parts_.setup.bytes.streams.any()) {
    if (happens(parts_.setup.bytes.streams.resumes)) resume = parts_.streams.draw_resume(asked, world().draw);
    if (happens(parts_.setup.bytes.streams.lookups)) waiting.form = Form::lookup;
    read_as_drawn(waiting);
  }
  std::string head = keyed_head(asked, routes) + resume.fields();
  if (waiting.form == Form::lookup) {
    head.replace(0, 4, "GET");
    expect(*connection, "GET", std::move(waiting), resume);
    return write(*connection, head + "Idempotency-Lookup: POST\r\n\r\n", manner);
  }
  const std::string body = keyed_body(name.key, asked.content);
  const std::string text = framed(std::move(head), body, old, manner.waits_for_continue);
  connection->last = connection->last || old;
  expect(*connection, "POST", std::move(waiting), resume);
  write(*connection, text, manner);
}

void ByteClients::stop(const Asked& asked, const OperationId& id) {
  Connection* connection = pick(true);
  if (connection == nullptr) return;
  parts_.history.stop_requested(id);
  std::string head = keyed_head(asked, parts_.setup.routes.size());
  head.replace(0, 4, "DELETE");
  expect(*connection, "DELETE", asked.caller, {});
  connection->owed.back().stop = Stop{.id = id, .asked_at = world().now()};
  write(*connection, head + "Idempotency-Stop: POST\r\n\r\n", draw_manner());
}

// A problem response means that nothing was stopped, or that the outcome is unknown.
void ByteClients::stop_answered(const Stop& stop, const Message& response) {
  const std::string stopped = response.field("Idempotency-Stopped");
  world().note(fmt::format("gateway: stop answered {} {}", response.status, stopped));
  if (response.status == 204) parts_.history.stop_answered(stop.id, stop.asked_at, stopped == "true");
}

void ByteClients::write(Connection& connection, const std::string& text, const Manner& manner) {
  connection.writing = true;
  if (manner.reads_slowly) {
    connection.peer->set_reading(false);
    Connection* const to = &connection;
    world().after(world().draw.between(100ms, 40s), [to] {
      if (!to->over) to->peer->set_reading(true);
    });
  }
  if (manner.waits_for_continue) {
    const std::size_t head = text.find("\r\n\r\n") + 4;
    connection.peer->send(text.substr(0, head));
    Connection* const to = &connection;
    world().after(world().draw.between(10ms, 300ms),
                  [this, to, head, text, manner] { write_from(*to, text, head, manner); });
    return;
  }
  write_from(connection, text, 0, manner);
}

void ByteClients::write_from(Connection& connection, const std::string& text, std::size_t at, const Manner& manner) {
  if (connection.over) return;
  Draw& draw = world().draw;
  std::size_t size = text.size() - at;
  if (size > 1 && (manner.splits || manner.stalls)) size = draw.between(1, std::min<std::size_t>(size, 2000));
  if (manner.leaves_at && at + size >= *manner.leaves_at) {
    if (*manner.leaves_at > at) connection.peer->send(text.substr(at, *manner.leaves_at - at));
    return drop(connection, draw.one_in(2));
  }
  connection.peer->send(text.substr(at, size));
  at += size;
  if (at == text.size()) return after_writing(connection, manner);
  const Duration pause = manner.stalls && draw.one_in(6) ? draw.between(500ms, 20s) : draw.between(0ms, 30ms);
  Connection* const to = &connection;
  world().after(pause, [this, to, text, at, manner] { write_from(*to, text, at, manner); });
}

void ByteClients::after_writing(Connection& connection, const Manner& manner) {
  connection.writing = false;
  if (manner.half_closes) {
    connection.last = true;
    connection.peer->end();
  }
  if (!manner.leaves_after) return;
  Connection* const to = &connection;
  world().after(world().draw.between(0ms, 2s), [this, to] { drop(*to, world().draw.one_in(2)); });
}

void ByteClients::stranger() {
  Draw& draw = world().draw;
  const unsigned caller = first_stranger + ++parts_.strangers;
  const std::uint64_t kind = draw.below(10);
  Connection* connection = pick(kind < 6);
  if (connection == nullptr) return;
  world().note(fmt::format("stranger {}: kind {}", caller, kind));
  if (kind < 6) return happens(parts_.setup.bytes.shadows) ? shadow(*connection) : pass(*connection, caller);
  connection->last = true;
  if (kind == 6) return upgrade(*connection, caller, false);
  if (kind == 7) return upgrade(*connection, caller, true);
  if (kind == 8) return malformed(*connection, caller);
  // Sends nothing, or part of a request line.
  if (draw.one_in(2)) connection->peer->send("GET /pas");
  expect(*connection, "GET", caller, {});
}

void ByteClients::passer_by() {
  if (Connection* connection = pick(true)) pass(*connection, first_stranger + ++parts_.strangers);
}

void ByteClients::evader() {
  Connection* const connection = pick(true);
  if (connection == nullptr) return;
  const unsigned caller = first_stranger + ++parts_.strangers;
  const std::string target = draw_evading_target(world().draw, caller);
  std::string head = fmt::format("POST {} HTTP/1.1\r\nHost: h0.test\r\nAuthorization: {}\r\n{}: {}\r\n", target,
                                 token_of(caller), number_field, caller);
  Manner manner = draw_manner();
  const std::string body = fmt::format("{} pays {}", token_of(caller), body_end);
  const std::string text = framed(std::move(head), body, false, manner.waits_for_continue);
  expect(*connection, "POST", caller, {});
  write(*connection, text, manner);
}

void ByteClients::pass(Connection& connection, unsigned caller) {
  Draw& draw = world().draw;
  const std::string token = token_of(caller);
  const std::string method = draw.one_of({"GET", "HEAD", "POST", "PUT"});
  std::string head = fmt::format("{} /pass/{} HTTP/1.1\r\nHost: h{}.test\r\nAuthorization: {}\r\n", method, caller,
                                 draw.below(2), token);
  Manner manner = draw_manner();
  const bool has_body = method == "POST" || method == "PUT";
  const bool old = happens(parts_.setup.bytes.old);
  connection.last = connection.last || old;
  std::string text = head + "\r\n";
  if (has_body) {
    const std::string body = fmt::format("{} sends {}{}", token, std::string(draw.below(6000), 'u'), body_end);
    text = framed(std::move(head), body, old, manner.waits_for_continue);
  } else if (old) {
    text.replace(text.find("HTTP/1.1"), 8, "HTTP/1.0");
  }
  expect(connection, method, caller, {});
  write(connection, text, manner);
}

// Sends a request with a key that other requests of this caller have used. It must pass, whatever happens with the key.
void ByteClients::shadow(Connection& connection) {
  Draw& draw = world().draw;
  const unsigned caller = first_shadow_caller + static_cast<unsigned>(draw.below(shadow_callers));
  const std::string token = token_of(caller);
  std::string head = fmt::format(
      "POST /shadow/a HTTP/1.1\r\nHost: h0.test\r\nAuthorization: {}\r\nIdempotency-Key: key-{}\r\n{}: {}\r\n", token,
      draw.below(3), number_field, parts_.strangers);
  const std::string body = fmt::format("{} sends {}{}", token, std::string(draw.below(2) * 3000, 'u'), body_end);
  Manner manner = draw_manner();
  const std::string text = framed(std::move(head), body, false, manner.waits_for_continue);
  expect(connection, "POST", caller, {});
  write(connection, text, manner);
}

// Asks for an upgrade. With a body it must be ignored: the rest of the body would also be read as bytes of the tunnel.
void ByteClients::upgrade(Connection& connection, unsigned caller, bool with_body) {
  Draw& draw = world().draw;
  const std::string token = token_of(caller);
  std::string text = fmt::format(
      "{} /pass/{} HTTP/1.1\r\nHost: h0.test\r\nAuthorization: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
      with_body ? "PUT" : "GET", caller, token);
  expect(connection, with_body ? "PUT" : "GET", caller, {});
  Connection* const to = &connection;
  const Duration later = draw.between(1ms, 2s);
  if (with_body) {
    connection.peer->send(text + fmt::format("Transfer-Encoding: chunked\r\n\r\n14\r\n{:20}\r\n", token));
    world().after(later, [this, to, token] {
      if (to->over) return;
      to->peer->send(fmt::format("14\r\n{:20}\r\n", token));
      world().after(1s, [this, to] { drop(*to, false); });
    });
    return;
  }
  const bool early = draw.one_in(3);
  // Early bytes for the tunnel. If the upgrade is refused, they are parsed as a second request and get an error.
  if (early) expect(connection, "GET", caller, {});
  connection.peer->send(early ? text + "\r\n" + token + "early " : text + "\r\n");
  for (unsigned i = 1; i <= 3; ++i) {
    world().after(later * i, [to, token] {
      if (!to->over && to->seen.in_tunnel()) to->peer->send(token + "ping ");
    });
  }
  world().after(later * 5, [this, to] { world().draw.one_in(2) ? to->peer->end() : drop(*to, true); });
}

void ByteClients::malformed(Connection& connection, unsigned caller) {
  Draw& draw = world().draw;
  std::string text(bad_requests[draw.below(bad_requests.size())]);
  expect(connection, "POST", caller, {});
  if (draw.one_in(4)) {
    // The head is valid, and the body is malformed.
    text = fmt::format(
        "POST /pass/{} HTTP/1.1\r\nHost: h0.test\r\nAuthorization: {}\r\nTransfer-Encoding: chunked\r\n\r\n", caller,
        token_of(caller));
    text += draw.one_of({"zz\r\nab\r\n", "5\r\nabcdefg\r\n", "-1\r\n", "fffffffffffffffff\r\nab\r\n"});
  }
  write(connection, text + std::string(smuggled), Manner{.splits = draw.one_in(2)});
}

void ByteClients::gateway_sent(std::uint64_t link, std::string_view bytes) {
  const auto at = by_link_.find(link);
  if (at == by_link_.end()) return;
  Connection& connection = *at->second;
  connection.sent.feed(bytes);
  if (!connection.sent.problem().empty()) return wrong(connection, "a gateway wrote " + connection.sent.problem());
  if (connection.sent.in_body()) look_at_sent(connection, connection.sent.message());
}

// Checks the new bytes of the body.
void ByteClients::look_at_sent(Connection& connection, const Message& response) {
  if (connection.owed.empty()) return;
  parts_.streams.sent(response, connection.checked, connection.owed.front().resume);
  connection.checked = response.body.size();
}

void ByteClients::gateway_closed(std::uint64_t link) {
  const auto at = by_link_.find(link);
  if (at != by_link_.end()) at->second->sent_over = true;
}

std::size_t ByteClients::held_for_readers() const {
  std::map<std::string, std::size_t> held;  // by outcome, because readers of the same response share its bytes
  for (const Connection& connection : connections_) {
    if (connection.sent_over || !connection.sent.in_body()) continue;
    const Message& response = connection.sent.message();
    if (response.framing != Message::Framing::length || response.length <= SharedOutcomes::largest_uncounted) continue;
    if (response.length > parts_.setup.bytes.max_body) continue;  // not kept: it is relayed
    const std::string status = response.field("Idempotency-Status");
    if (status != "executed" && status != "replayed") continue;
    // For a response that is recorded as it streams, the gateway holds what its readers have not read, in any pieces.
    if (parts_.streams.is_recorded_stream(response)) continue;
    const std::size_t at = response.body.find("execution=");
    const std::size_t end = response.body.find("r", at);
    if (at == std::string::npos || end == std::string::npos) continue;
    held[response.body.substr(at, end - at)] = response.length;
  }
  std::size_t sum = 0;
  for (const auto& [outcome, length] : held) sum += length;
  return sum;
}

bool ByteClients::reads_since(unsigned execution, Time since) const {
  return std::ranges::any_of(connections_, [&](const Connection& connection) {
    if (connection.over || connection.sent_over || !connection.sent.in_body()) return false;
    const Message& response = connection.sent.message();
    return response.field(execution_field) == fmt::format("{}", execution) && connection.head_at <= since;
  });
}

}  // namespace once::sim
