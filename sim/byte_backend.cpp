#include "sim/byte_backend.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include <fmt/format.h>

#include "gateway/limits/shared_outcomes.hpp"
#include "sim/byte_marks.hpp"
#include "sim/loose_paths.hpp"

namespace once::sim {

namespace {

using namespace std::chrono_literals;

// The first bytes of a keyed body identify its operation.
constexpr std::size_t enough_of_a_body = 12;
// Appears in the first line of every request, and in no body.
constexpr std::string_view other_request = "HTTP/1.1";

template <class Blob>
std::optional<Blob> blob_in(std::string_view hex) {
  const auto bytes = from_hex(hex);
  if (!bytes || bytes->size() != Blob::size) return std::nullopt;
  Blob blob;
  std::ranges::copy(*bytes, blob.bytes.begin());
  return blob;
}

std::string in_chunks(std::string_view body, Draw& draw) {
  std::string text;
  while (!body.empty()) {
    const std::size_t size = draw.between(1, std::max<std::size_t>(body.size(), 1));
    text += fmt::format("{:x}\r\n{}\r\n", size, body.substr(0, size));
    body.remove_prefix(size);
  }
  return text + "0\r\n\r\n";
}

std::string malformed_answer(Draw& draw, const std::string& body) {
  switch (draw.below(6)) {
    case 0: return "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n";
    case 1: return "hello\r\n\r\n";
    case 2: return "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n" + body;
    case 3: return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + body;
    case 4: return "HTTP/1.1 200 OK\r\nno field\r\n\r\n" + body;
    default: return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" + body;
  }
}

}  // namespace

ByteBackend::ByteBackend(Network& network, History& history, const Setup& setup)
    : network_(network),
      world_(network.world()),
      history_(history),
      setup_(setup),
      streams_(history, setup),
      servers_(setup.bytes.servers) {
  for (unsigned i = 0; i < servers_.size(); ++i) {
    network_.serve(Network::address(ip(i), port),
                   [this, i](std::unique_ptr<Peer> peer) { accept(std::move(peer), i); });
  }
}

std::string ByteBackend::ip(unsigned server) {
  return fmt::format("192.0.2.{}", 100 + server);
}

ByteBackend::Connection& ByteBackend::connection(std::uint64_t link) {
  const auto [at, fresh] = connections_.try_emplace(link);
  Connection& connection = at->second;
  if (!fresh) return connection;
  connection.sent.on_head = [this, &connection](const Message& request) { sent_head(connection, request); };
  connection.received.on_head = [this, &connection](const Message& response) { received_head(connection, response); };
  connection.received.on_message = [this, &connection](const Message& response) {
    note_response(connection, response.status);
  };
  connection.requests.on_head = [this, &connection](const Message& request) { got_head(connection, request); };
  connection.requests.on_message = [this, &connection](const Message& request) { got_request(connection, request); };
  connection.requests.on_tunnel = [this, &connection](std::string_view bytes) {
    const std::string foreign = foreign_token(bytes, connection.tunnel_of);
    if (!foreign.empty()) history_.violated(fmt::format("a tunnel carries bytes of {}", foreign));
    if (connection.peer) connection.peer->send(bytes);
  };
  return connection;
}

void ByteBackend::accept(std::unique_ptr<Peer> peer, unsigned server) {
  Connection& made = connection(peer->link());
  made.server = server;
  made.peer = std::move(peer);
  made.peer->on_bytes = [this, &made](std::string_view bytes) { read(made, bytes); };
  made.peer->on_end = [&made] { made.peer->close(); };
  made.peer->on_reset = [&made] { made.peer->close(); };
}

void ByteBackend::read(Connection& connection, std::string_view bytes) {
  connection.requests.feed(bytes);
  if (!connection.requests.problem().empty()) {
    history_.violated("a gateway sent a malformed request: " + connection.requests.problem());
    connection.peer->close();
    return;
  }
  const Message& request = connection.requests.message();
  if (!connection.requests.in_body()) return;
  judge_part(request, bytes.size());
  if (connection.early || request.body.size() < enough_of_a_body) return;
  if (!happens(setup_.bytes.answers_early)) return;
  connection.early = true;
  if (happens(setup_.bytes.stops_reading)) stop_reading(connection, request);
  serve(connection, request);
}

// Checks that an incomplete body does not contain the next request.
void ByteBackend::judge_part(const Message& request, std::size_t fresh) {
  const std::size_t seen = request.body.size() - std::min(request.body.size(), fresh + other_request.size());
  if (request.body.find(other_request, seen) == std::string::npos) return;
  history_.violated("another request is in the body of " + request.target);
}

// Stops reading for a while. Half of these pauses last just longer than the timeout of the request.
void ByteBackend::stop_reading(Connection& connection, const Message& request) {
  connection.peer->set_reading(false);
  Connection* const stopped = &connection;
  std::size_t route = 0;
  const bool keyed = std::sscanf(request.target.c_str(), "/route/%zu", &route) == 1;
  const Duration patience = keyed ? setup_.routes[route % setup_.routes.size()].timeouts.response : pass_idle;
  Duration length = world_.draw.between(100ms, 25s);
  if (world_.draw.one_in(2)) length = patience + world_.draw.below(Duration(1s));
  world_.after(length, [stopped] {
    if (stopped->peer->open()) stopped->peer->set_reading(true);
  });
}

void ByteBackend::got_head(Connection& connection, const Message& request) {
  connection.early = false;
  if (!request.has("Upgrade")) return;
  if (happens(30)) return;
  switch_protocols(connection, request);
}

void ByteBackend::switch_protocols(Connection& connection, const Message& request) {
  if (!judge(request)) return;
  connection.tunnel = true;
  connection.tunnel_of = caller_in(request).value_or(0);
  connection.requests.begin_tunnel();
  connection.peer->send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  connection.peer->send(token_of(connection.tunnel_of) + "hello ");
  if (!happens(setup_.bytes.tunnel_resets)) return;
  Connection* const to = &connection;
  world_.after(world_.draw.between(1ms, 3s), [this, to] {
    if (healed_ || !to->peer->open()) return;
    reset_tunnels.insert(to->tunnel_of);
    to->peer->reset();
  });
}

// Checks that the request contains nothing of another caller, and came only once.
bool ByteBackend::judge(const Message& request) {
  const auto caller = caller_in(request);
  if (request.target.starts_with(smuggled_path)) {
    history_.violated("a request inside of another one reached the backend");
    return false;
  }
  if (!caller) {
    history_.violated("a request without a caller reached the backend: " + request.head_text);
    return false;
  }
  const std::string foreign = foreign_token(request.head_text + request.body, *caller);
  if (!foreign.empty()) {
    history_.violated(fmt::format("a request of {} carries bytes of {}", token_of(*caller), foreign));
  }
  if (request.body.contains(other_request)) {
    history_.violated(fmt::format("another request is in the body of one of {}", token_of(*caller)));
  }
  return true;
}

void ByteBackend::got_request(Connection& connection, const Message& request) {
  if (std::exchange(connection.early, false)) {
    judge(request);
    return;
  }
  serve(connection, request);
}

ByteBackend::Plan ByteBackend::draw_plan() {
  if (happens(setup_.backend_fails)) return Plan::fails;
  if (happens(setup_.backend_dies_before) || happens(setup_.backend_dies_after)) return Plan::dies;
  if (happens(setup_.backend_truncates)) return Plan::truncates;
  if (happens(setup_.backend_hangs)) return Plan::hangs;
  if (happens(setup_.bytes.malformed)) return Plan::malformed;
  if (happens(setup_.bytes.switches_unasked)) return Plan::switches;
  return Plan::answers;
}

std::string ByteBackend::body_for(const Message& request, const std::optional<Asked>& asked, unsigned number) {
  std::string text = token_of(caller_in(request).value_or(0));
  if (asked) {
    text += fmt::format(" {} execution={}", body_of(*asked), number);
  } else {
    text += fmt::format(" passed={} of {}", number, request.target);
  }
  const bool large = setup_.bytes.large_body > 0 && number % 3 == 0;
  text.append(large ? setup_.bytes.large_body : number % 50, 'r');
  return text.append(body_end);
}

std::string ByteBackend::shaped(const Message& request, int status, const std::string& body, bool& closes) {
  const std::string caller = token_of(caller_in(request).value_or(0));
  std::string text;
  if (happens(setup_.bytes.interim)) {
    text += fmt::format("HTTP/1.1 103 Early Hints\r\nX-Caller: {}\r\n\r\n", caller);
  }
  if (happens(setup_.bytes.interim) && request.has("Expect")) text += "HTTP/1.1 100 Continue\r\n\r\n";
  text += fmt::format("HTTP/1.1 {} Status\r\nX-Caller: {}\r\nContent-Type: text/plain\r\n", status, caller);
  const std::size_t named = body.find(" execution=");
  if (setup_.bytes.streams.any() && named != std::string::npos) {
    text += fmt::format("{}: {}\r\n", execution_field, std::atoi(body.c_str() + named + 11));
  }
  closes = happens(setup_.bytes.closes);
  if (closes && world_.draw.one_in(2)) text += "Connection: close\r\n";
  if (request.method == "HEAD") return text + fmt::format("Content-Length: {}\r\n\r\n", body.size());
  const bool until_close = happens(setup_.bytes.answers_until_close);
  if (!until_close) text += fmt::format("{}: yes\r\n", framed_field);
  if (!until_close && happens(setup_.bytes.answers_in_chunks)) {
    return text + "Transfer-Encoding: chunked\r\n\r\n" + in_chunks(body, world_.draw);
  }
  if (until_close) {
    closes = true;
    return text + "\r\n" + body;
  }
  return text + fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
}

void ByteBackend::answer_check(Connection& connection, const Message& request) {
  Server& server = servers_[connection.server];
  if (world_.now() >= server.changes_at) {
    server.fit = !happens(setup_.bytes.unfit);
    server.changes_at = world_.now() + world_.draw.between(1s, 10s);
  }
  const Plan plan = draw_plan();
  if (plan == Plan::hangs) return;
  bool closes = true;
  std::string text = shaped(request, server.fit || healed_ ? 200 : 503, "checked", closes);
  if (plan == Plan::dies) text.clear();
  if (plan == Plan::truncates) text.resize(world_.draw.below(text.size()));
  if (plan == Plan::malformed) text = malformed_answer(world_.draw, "checked");
  answer(connection, std::move(text), plan, true);
}

void ByteBackend::serve(Connection& connection, const Message& request) {
  if (request.target == setup_.bytes.health.path) return answer_check(connection, request);
  if (!judge(request)) return;
  const std::string claim = request.field("Idempotency-Claim");
  std::optional<Asked> asked;
  unsigned number = ++passed_;
  if (!claim.empty()) {
    asked = asked_in(request, setup_.routes.size());
    const auto nonce = blob_in<Nonce>(std::string_view(claim).substr(std::min(claim.find('.') + 1, claim.size())));
    std::uint64_t fence = 0;
    const std::string digits = request.field("Idempotency-Fence");
    std::from_chars(digits.data(), digits.data() + digits.size(), fence);
    if (!asked || !nonce) return history_.violated("a keyed request is malformed: " + request.head_text);
    number = history_.executed(*asked, *nonce, fence);
    if (connection.at_work == nonce) connection.execution = number;
  } else if (request.method == "POST" && may_be_read_as_required(request.target)) {
    return history_.violated("a request without a key reached the backend on a path that requires one: " +
                             request.target);
  } else if (request.method == "POST" && ++arrived_[request.target + request.field(number_field)] > 1) {
    history_.violated("a request without a key was sent twice: " + request.target);
  }
  const Plan plan = draw_plan();
  if (!asked) world_.note(fmt::format("backend: {} {} passes", request.method, request.target));
  if (plan == Plan::hangs) return;
  const StreamSetup& streams = setup_.bytes.streams;
  if (asked && streams.any() && plan == Plan::answers && world_.draw.percent(streams.chance)) {
    return stream(connection, request, *asked, number);
  }
  const bool invalid = plan == Plan::answers && world_.draw.one_in(10);
  int status = invalid ? 400 : world_.draw.one_of({200, 201});
  if (plan == Plan::fails) status = world_.draw.one_of({500, 503, 429, 408, 425});
  const std::string body = body_for(request, asked, number);
  if (asked) streams_.begins(number, {.asked = *asked, .body = body});
  bool closes = plan != Plan::answers && plan != Plan::fails;
  std::string text;
  switch (plan) {
    case Plan::answers:
    case Plan::fails: text = shaped(request, status, body, closes); break;
    case Plan::truncates:
      text = shaped(request, status, body, closes);
      text.resize(world_.draw.below(text.size()));
      closes = true;
      break;
    case Plan::malformed: text = malformed_answer(world_.draw, body); break;
    case Plan::switches:
      text = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + body;
      break;
    case Plan::dies:
    case Plan::hangs: break;
  }
  answer(connection, std::move(text), plan, closes);
}

void ByteBackend::answer(Connection& connection, std::string text, Plan plan, bool closes) {
  Draw& draw = world_.draw;
  const Duration takes = draw.between(0ms, healed_ ? 20ms : setup_.backend_takes);
  const bool resets = plan == Plan::dies ? draw.one_in(2) : plan == Plan::truncates && draw.one_in(3);
  const bool whole = plan == Plan::answers || plan == Plan::fails;
  // If the response ends with its connection, extra bytes would be part of it.
  const bool more = whole && happens(setup_.bytes.extra_bytes) && !(closes && setup_.bytes.streams.any());
  const std::size_t first =
      happens(setup_.bytes.answers_in_parts) && text.size() > 1 ? draw.between(1, text.size() - 1) : text.size();
  const Duration pause = first < text.size() ? draw.between(1ms, 4s) : 0ms;
  Connection* to = &connection;
  const std::uint64_t serving = ++connection.served;
  world_.after(takes, [to, part = text.substr(0, first)] {
    if (to->peer) to->peer->send(part);
  });
  world_.after(takes + pause, [to, serving, rest = text.substr(first), closes, resets, more] {
    if (!to->peer) return;
    to->peer->send(more ? rest + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nnever" : rest);
    if (resets) return to->peer->reset();
    if (closes && to->served == serving) to->peer->close();
  });
}

void ByteBackend::gateway_sent(std::uint64_t link, const Executor& process, std::string_view bytes) {
  Connection& of = connection(link);
  of.process = &process;
  if (!of.sent.in_message()) of.sent_at = history_.moment();
  of.sent.feed(bytes);
}

void ByteBackend::sent_head(Connection& connection, const Message& request) {
  connection.received.expect(request.method);
  connection.execution.reset();
  connection.response_noted = false;
  connection.checks = request.target == setup_.bytes.health.path;
  if (!connection.checks) check_fit(connection);
  const std::string claim = request.field("Idempotency-Claim");
  if (claim.empty()) return;
  const auto id = blob_in<OperationId>(std::string_view(claim).substr(0, claim.find('.')));
  const auto nonce = blob_in<Nonce>(std::string_view(claim).substr(std::min(claim.find('.') + 1, claim.size())));
  if (!id || !nonce) return history_.violated("an Idempotency-Claim is malformed: " + claim);
  connection.at_work = *nonce;
  connection.caller = caller_in(request).value_or(0);
  check_at_work(connection);
  history_.goes_to_backend(*id, *nonce, *connection.process, connection.sent_at);
}

// Records the result of a health check as the gateway saw it; no status: the server did not answer.
void ByteBackend::checked(Connection& connection, std::optional<int> status) {
  if (!std::exchange(connection.checks, false)) return;
  Checked& known = checked_[{connection.process, connection.server}];
  const bool good = status && *status < 400;
  known.good = good ? known.good + 1 : 0;
  known.bad = good ? 0 : known.bad + 1;
  if (!good) known.up_since.reset();
  if (known.good >= setup_.bytes.health.successes) {
    known.down_since.reset();
    if (!known.up_since) known.up_since = world_.now();
  }
  // A check without an answer does not prove that the server is down: the gateway may have given it up.
  if (status && known.bad >= setup_.bytes.health.failures && !known.down_since) known.down_since = world_.now();
}

// A server that reported to be unfit must get no requests while another one is up.
void ByteBackend::check_fit(const Connection& connection) {
  if (!setup_.bytes.checks_health() || !setup_.bytes.reaches_servers() || setup_.gateway_pauses > 0 || healed_) return;
  // Longer than connecting to the chosen server may take.
  const Time before = world_.now() - 3s;
  const Checked& known = checked_[{connection.process, connection.server}];
  const Checked& other = checked_[{connection.process, 1 - connection.server}];
  if (!known.down_since || *known.down_since > before || !other.up_since || *other.up_since > before) return;
  history_.violated(fmt::format("server {} was sent a request though its health checks fail", connection.server));
}

// Checks the limit of requests in progress of one caller.
void ByteBackend::check_at_work(const Connection& connection) {
  const std::size_t most = setup_.bytes.limits.caller.in_flight;
  if (most == 0 || healed_) return;
  const auto count = static_cast<std::size_t>(std::ranges::count_if(connections_, [&connection](const auto& each) {
    const Connection& other = each.second;
    return other.at_work && other.process == connection.process && other.caller == connection.caller;
  }));
  if (count <= most) return;
  history_.violated(
      fmt::format("{} has {} requests in progress, {} are allowed", token_of(connection.caller), count, most));
}

ByteBackend::Received ByteBackend::gateway_received(std::uint64_t link, std::string_view bytes) {
  Connection& of = connection(link);
  const std::uint64_t before = of.received.messages();
  of.received.feed(bytes);
  // An oversize body is not kept, so its response counts before it is complete. A stream is recorded at its end,
  // whatever its size.
  const bool oversize = of.received.in_body() && of.received.message().body.size() > setup_.bytes.max_body &&
                        !streams_.is_recorded_stream(of.received.message());
  if (oversize) note_response(of, of.received.message().status);
  const bool whole = of.received.messages() > before && !of.received.in_message();
  return whole && of.sent.in_message() ? Received::before_request : Received::nothing_new;
}

void ByteBackend::received_head(Connection& connection, const Message& response) {
  if (response.status == 101) connection.sent.begin_tunnel();
  if (response.status >= 200) checked(connection, response.status);
  if (response.status < 200 || response.framing == Message::Framing::none) return;
  if (streams_.is_recorded_stream(response)) return;
  const bool large = response.framing == Message::Framing::length && response.length > setup_.bytes.max_body;
  const bool no_room = setup_.bytes.memory_is_short() && (response.framing != Message::Framing::length ||
                                                          response.length > SharedOutcomes::largest_uncounted);
  if (large || no_room) note_response(connection, response.status);
}

void ByteBackend::gateway_received_end(std::uint64_t link) {
  connection(link).received.end();
}

void ByteBackend::note_response(Connection& connection, int status) {
  if (std::exchange(connection.response_noted, true)) return;
  if (connection.execution) history_.response_received(*connection.execution, status);
  back(connection);
}

void ByteBackend::back(Connection& connection) {
  if (connection.at_work) history_.back_from_backend(*connection.at_work);
  connection.at_work.reset();
}

void ByteBackend::gateway_closed(std::uint64_t link) {
  const auto at = connections_.find(link);
  if (at == connections_.end()) return;
  back(at->second);
  checked(at->second, std::nullopt);
}

void ByteBackend::closes_everything() {
  for (auto& [link, connection] : connections_) {
    if (connection.peer) connection.peer->close();
  }
}

}  // namespace once::sim
