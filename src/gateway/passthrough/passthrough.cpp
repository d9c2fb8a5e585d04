#include "gateway/passthrough/passthrough.hpp"

#include <algorithm>

#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/passthrough/tunnel.hpp"
#include "gateway/upstream/forward.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

using http::BodyChunk;
using http::Framing;
using http::Io;
using http::IoResult;
using http::Socket;
using http::UpstreamConnection;
using http::UpstreamConnectionPtr;

namespace {

// If the client waits for 100 Continue and the backend has not sent it by then, Once sends it: many backends never do,
// and clients usually wait for a second.
constexpr Duration continue_wait = std::chrono::milliseconds(100);
constexpr std::size_t most_joined = std::size_t{16} << 10U;

PassedResult failed_with(ProblemKind kind, std::string_view detail) {
  return {.status = 0, .keep = false, .whole = false, .problem = kind, .detail = std::string(detail)};
}

bool is_event_stream(const http::ResponseHead& head) {
  constexpr std::string_view type = "text/event-stream";
  const auto value = head.find("Content-Type");
  return value && value->size() >= type.size() && same_name(value->substr(0, type.size()), type);
}

// "websocket" of "websocket/13".
std::string_view protocol_name(std::string_view protocol) {
  return protocol.substr(0, protocol.find('/'));
}

}  // namespace

Task<PassedResult> PassThrough::run(const PassedRequest& request) {
  request_ = &request;
  began_ = client_.socket.loop().now();
  upload_ = Upload::none;
  client_gone_ = false;
  events_ = false;
  body_asked_for_ = false;
  interim_relayed_ = false;
  repeated_ = false;
  turn_ = {};
  held_.reset();
  etag_.clear();
  head_.clear();
  choose_upgrade();
  repeatable_ = is_repeatable();
  if (request.backend.retry_safe() != RetrySafe::off && repeatable_) request.backend.group().earn_retry();
  PassedResult result;
  const Sent sent = co_await send_request();
  switch (sent) {
    case Sent::ok: result = co_await relay(); break;
    case Sent::unreachable:
      result = failed_with(ProblemKind::bad_gateway, "The backend could not be reached; nothing was executed.");
      result.whole = true;
      break;
    case Sent::busy:
      result = failed_with(ProblemKind::upstream_busy,
                           "No connection to the backend was free in time; nothing was executed.");
      result.whole = true;
      break;
    case Sent::client_gone:
      sometimes<"pass: the client left before anything was sent">();
      result.whole = true;
      break;
    case Sent::not_permitted:
      result = failed_with(ProblemKind::resource_busy, resource_lost);
      result.whole = true;
      break;
  }
  client_.socket.unwatch();
  co_await end_upload();
  result.keep = result.keep && client_.body.ended();
  upstream_.reset();
  co_return result;
}

void PassThrough::choose_upgrade() {
  upgrade_.clear();
  if (!client_.head.upgrade || client_.head.framing.has_body() || request_->write != nullptr) return;
  for (const http::Field& field : client_.head.fields) {
    if (!same_name(field.name, "Upgrade")) continue;
    for (const std::string_view part : split(field.value, ',')) {
      const std::string_view protocol = trim(part);
      const auto allowed = [protocol](const std::string& name) { return same_name(name, protocol_name(protocol)); };
      if (std::ranges::none_of(request_->upgrades, allowed)) continue;
      upgrade_.append(upgrade_.empty() ? "" : ", ").append(protocol);
    }
  }
}

bool PassThrough::switched_as_asked() const {
  const auto to = upstream_->head().find("Upgrade");
  if (!upgrades() || !to || to->empty()) return false;
  return std::ranges::all_of(split(*to, ','), [this](std::string_view part) {
    return std::ranges::any_of(split(upgrade_, ','), [part](std::string_view asked) {
      return same_name(protocol_name(trim(part)), protocol_name(trim(asked)));
    });
  });
}

bool PassThrough::is_repeatable() const {
  const http::RequestHead& head = client_.head;
  if (!is_safe(head.method) || head.framing.kind != Framing::Kind::none || upgrades() || request_->has_key)
    return false;
  return std::ranges::none_of(head.fields, [](const http::Field& field) { return overrides_method(field.name); });
}

bool PassThrough::may_be_repeated() const {
  return repeatable_ && !repeated_ && !interim_relayed_ && !client_gone_;
}

bool PassThrough::may_try_fresh(UpstreamConnection::HeadRead read) const {
  return read == UpstreamConnection::HeadRead::no_bytes && upstream_->reused() && may_be_repeated();
}

bool PassThrough::may_try_elsewhere(UpstreamConnection::HeadRead read) const {
  const RetrySafe when = request_->backend.retry_safe();
  if (when == RetrySafe::off || !may_be_repeated()) return false;
  if (read == UpstreamConnection::HeadRead::no_bytes) return true;
  if (read != UpstreamConnection::HeadRead::ok || when != RetrySafe::unavailable) return false;
  const int status = upstream_->head().status;
  return status == 502 || status == 503 || status == 504;
}

// Close the old connection first: the server may be at its connection limit.
Task<PassThrough::Sent> PassThrough::send_fresh() {
  const UpstreamGroup::Turn first = turn_;
  upstream_.reset();
  request_->backend.group().retry_fresh(turn_);
  const Sent sent = co_await send_request();
  repeated_ = sent == Sent::ok;
  if (!repeated_) turn_ = first;
  watch_client();
  co_return sent;
}

// Keep the first connection until a second one has accepted the request: its response is used if there is no second.
Task<PassThrough::Sent> PassThrough::send_elsewhere() {
  if (request_->backend.group().retry_elsewhere(turn_) == UpstreamGroup::Retried::no) co_return Sent::unreachable;
  repeated_ = true;
  UpstreamConnectionPtr first = std::move(upstream_);
  const Sent sent = co_await send_request();
  if (sent != Sent::ok) upstream_ = std::move(first);
  watch_client();
  co_return sent;
}

// Nothing has been sent yet, so a client that leaves cancels its request.
Task<UpstreamConnectionPtr> PassThrough::connection() {
  const Duration idle_max = repeatable_ ? request_->safe_idle_max : request_->unsafe_idle_max;
  UpstreamGroup& group = request_->backend.group();
  UpstreamConnectionPtr idle = group.take_idle(turn_, idle_max);
  if (idle) co_return std::move(idle);
  looking_ = true;
  watch_client();
  UpstreamConnectionPtr fresh = co_await group.connect(turn_, idle_max, request_->timeouts.connect);
  client_.socket.unwatch();
  looking_ = false;
  co_return std::move(fresh);
}

Task<PassThrough::Sent> PassThrough::send_request() {
  Framing framing = client_.head.framing;
  const std::string_view unread = client_.buffer.unread();
  const bool was_read = request_->write != nullptr;
  const bool in_buffer = !was_read && framing.kind == Framing::Kind::length && unread.size() >= framing.length;
  const bool all_here = in_buffer || was_read;
  std::string_view body = request_->body;
  if (in_buffer) body = unread.substr(0, static_cast<std::size_t>(framing.length));
  // The body is framed if the client sent one.
  if (was_read && framing.kind != Framing::Kind::none) {
    framing = {.kind = Framing::Kind::length, .length = body.size()};
  }
  added_.clear();
  added_.add("X-Request-Id", request_->request_id);
  const bool whole = all_here || client_.body.ended();
  bool written = false;
  upstream_.reset();
  while (true) {
    upstream_ = co_await connection();
    if (client_gone_) co_return Sent::client_gone;
    if (!upstream_) {
      if (whole) observe_whole(body);
      co_return turn_.busy() ? Sent::busy : Sent::unreachable;
    }
    if (request_->use != nullptr) request_->use->server = request_->backend.group().server(turn_).authority;
    std::string& head = upstream_->request_head();
    ForwardedHead as = request_->backend.head_for(turn_);
    as.added_fields = added_.view();
    as.framing = framing;
    as.upgrade = upgrade_;
    as.forward_expect = !all_here;
    as.strip_prefix = request_->strip_prefix;
    as.origin = request_->origin;
    write_forwarded_head(head, client_.head, as);
    const bool joined = body.size() <= http::small_body;
    if (joined) head.append(body);
    const std::string_view rest = joined ? std::string_view() : body;
    if (request_->write != nullptr && !request_->write->may_send()) co_return Sent::not_permitted;
    const IoResult sent = co_await upstream_->socket().write_all(head, rest, request_->timeouts.stream_idle);
    written = sent.status == Io::ok;
    if (sent.bytes > 0) break;  // a backend that stopped reading may still have answered
    const bool reused = upstream_->reused();
    sometimes<"pass: nothing could be written, another connection is tried">();
    upstream_.reset();
    if (!reused) request_->backend.group().took_nothing(turn_);
  }
  if (whole) observe_whole(body);
  if (in_buffer && framing.length > 0) client_.body.next(client_.buffer);
  if (client_.body.ended()) {
    if (written) upstream_->request_written();
  } else if (!written) {
    sometimes<"pass: half a head was written">();
    upload_ = Upload::refused;  // the body must not follow an incomplete head
  } else {
    upload_ = Upload::running;
    upload_ended_.clear();
    spawn(upload());
  }
  co_return Sent::ok;
}

// Not called for a client that left before anything was sent: there was no request.
void PassThrough::observe_whole(std::string_view body) {
  if (request_->observer == nullptr) return;
  if (!body.empty()) request_->observer->body_part(body);
  request_->observer->body_ended();
}

// Runs concurrently with the response: a backend may answer before it has read everything.
Task<void> PassThrough::upload() {
  while (true) {
    const BodyChunk chunk = co_await client_.next_body();
    if (chunk.kind == BodyChunk::Kind::data) {
      if (request_->observer != nullptr) request_->observer->body_part(chunk.data);
      const Io sent = co_await upload_chunk(chunk.data);
      if (sent == Io::ok) continue;
      upload_ = Upload::refused;
      break;
    }
    if (chunk.kind == BodyChunk::Kind::end) {
      if (request_->observer != nullptr) request_->observer->body_ended();
      const bool chunked = client_.head.framing.kind == Framing::Kind::chunked;
      const std::string_view end = chunked ? http::last_chunk : std::string_view();
      const IoResult sent = co_await upstream_->socket().write_all(end, request_->timeouts.stream_idle);
      upload_ = sent.status == Io::ok ? Upload::done : Upload::refused;
      if (upload_ == Upload::done) upstream_->request_written();
      break;
    }
    // The client did not send the whole body: the backend must not take the part for a complete request.
    sometimes<"pass: the client does not send the whole body">();
    upload_ = chunk.kind == BodyChunk::Kind::timed_out ? Upload::late : Upload::malformed;
    upstream_->socket().cancel();
    break;
  }
  upload_ended_.set();
}

Task<Io> PassThrough::upload_chunk(std::string_view data) {
  char size[18];
  Socket& to = upstream_->socket();
  http::WriteAll::Pieces pieces{data};
  if (client_.head.framing.kind == Framing::Kind::chunked) {
    const std::size_t length = http::write_chunk_size(size, data.size());
    pieces = {std::string_view(size, length), data, "\r\n"};
  }
  const IoResult sent = co_await to.write_all(pieces, request_->timeouts.stream_idle);
  co_return sent.status;
}

// If the response ends before the request, both end.
Task<void> PassThrough::end_upload() {
  if (upload_ == Upload::running) {
    sometimes<"pass: answered before the whole request was sent">();
    client_.socket.cancel();
    upstream_->socket().cancel();
  }
  co_await upload_ended_;
  if (!client_.displaced) client_.socket.restore();
}

void PassThrough::watch_client() {
  if (upload_ == Upload::running) return;
  client_.socket.unwatch();
  if (const auto what = client_.socket.watch(*this)) peer_moved(*what);
}

// A half-closed client is served to the end of its response, unless that is an event stream, which has no end. While
// queued it is assumed to have left: most have, and the reply asks the others to retry.
void PassThrough::peer_moved(Socket::Peer what) {
  sometimes<"pass: the client left while a connection is made">(looking_ && what != Socket::Peer::bytes);
  if (looking_ && what != Socket::Peer::bytes) request_->backend.group().give_up(turn_);
  const bool left = what == Socket::Peer::gone || (what == Socket::Peer::end && events_);
  if (!left) return;
  client_gone_ = true;
  if (upstream_ && !continues_without_client()) upstream_->socket().cancel();
}

void PassThrough::note_served(UpstreamConnection::HeadRead read) {
  const bool broken_by_client = client_gone_ || upload_ == Upload::late || upload_ == Upload::malformed;
  if (read != UpstreamConnection::HeadRead::ok) {
    if (!broken_by_client) request_->backend.group().served(turn_, Served::badly);
  } else if (upstream_->head().status >= 200) {
    request_->backend.group().served(turn_, served_with(upstream_->head().status));
  }
}

Task<PassedResult> PassThrough::relay() {
  watch_client();
  bool body_awaited = client_.head.expects_continue && upload_ == Upload::running;
  while (true) {
    const Duration patience = body_awaited ? std::min(continue_wait, longest_silence()) : longest_silence();
    const auto deadline = client_.socket.loop().now() + patience;
    const auto read = co_await upstream_->read_head(client_.head.method, deadline);
    if (request_->use != nullptr) request_->use->took = client_.socket.loop().now() - began_;
    if (read == UpstreamConnection::HeadRead::timed_out && body_awaited) {
      body_awaited = false;
      sometimes<"pass: the backend does not ask for the body">();
      co_await ask_for_body();
      continue;
    }
    if (read == UpstreamConnection::HeadRead::timed_out && upload_ == Upload::running) continue;
    if (may_try_fresh(read)) {
      sometimes<"pass: an idle connection died, sent on a fresh one">();
      const Sent sent = co_await send_fresh();
      if (sent == Sent::ok) continue;
    }
    note_served(read);
    if (may_try_elsewhere(read)) {
      sometimes<"pass: sent to another server">();
      const Sent sent = co_await send_elsewhere();
      if (sent == Sent::ok) continue;
    }
    const bool continues = continues_without_client() && read == UpstreamConnection::HeadRead::ok;
    if ((client_gone_ || client_.sent_end) && !continues) co_return PassedResult{};
    if (read != UpstreamConnection::HeadRead::ok) co_return unanswered(read);
    const int status = upstream_->head().status;
    if (status >= 200) break;
    if (status == 101 && !switched_as_asked()) {
      PassedResult unasked =
          failed_with(ProblemKind::backend_lost, "The backend switched to a protocol that the client did not request.");
      unasked.fault = http::ResponseFault::unasked_switch;
      co_return unasked;
    }
    body_awaited = body_awaited && status != 100;
    if (status == 100 && body_asked_for_) {
      upstream_->drop_head();
      continue;
    }
    const Io relayed = co_await relay_interim();
    if (relayed != Io::ok && !continues) co_return PassedResult{};
    if (status == 101) {
      client_.socket.unwatch();
      co_await tunnel(client_.socket, client_.buffer, upstream_->socket(), upstream_->buffer(),
                      request_->timeouts.stream_idle);
      co_return PassedResult{.status = 101, .keep = false, .whole = false, .problem = {}, .detail = {}};
    }
    upstream_->drop_head();
  }
  if (request_->write != nullptr) {
    std::optional<Problem> half = co_await request_->write->answered(upstream_->head().status);
    if (half) co_return failed_with(half->kind, half->detail);
  }
  if (request_->tagging != nullptr && may_be_tagged(upstream_->head())) {
    std::optional<PassedResult> answered = co_await hold_for_tag();
    if (answered) co_return *std::move(answered);
  }
  PassedResult result = co_await relay_body();
  co_return result;
}

// 100 Continue is only a hint: a client that does not wait for it is not affected, and one that has left is noticed
// elsewhere.
Task<void> PassThrough::ask_for_body() {
  if (upload_ != Upload::running || client_.pace.bytes > 0) co_return;
  body_asked_for_ = true;
  co_await client_.socket.write_all("HTTP/1.1 100 Continue\r\n\r\n", client_.timeouts->body_idle);
}

PassedResult PassThrough::unanswered(UpstreamConnection::HeadRead read) const {
  if (read == UpstreamConnection::HeadRead::timed_out) {
    return failed_with(ProblemKind::gateway_timeout, "The backend did not answer in time.");
  }
  if (upload_ == Upload::late) {
    return failed_with(ProblemKind::request_timeout, "The request body did not arrive in time.");
  }
  if (upload_ == Upload::malformed) return failed_with(ProblemKind::bad_request, "The request body is malformed.");
  return lost();
}

PassedResult PassThrough::lost() const {
  const auto fault = upstream_ ? upstream_->fault() : std::nullopt;
  PassedResult result = failed_with(ProblemKind::backend_lost, fault ? "The backend's response is malformed."
                                                                     : "The connection to the backend was lost.");
  result.fault = fault;
  return result;
}

Task<Io> PassThrough::relay_interim() {
  if (client_.head.version == http::Version::http_1_0) co_return Io::ok;
  interim_relayed_ = true;
  write_interim_head();
  const IoResult sent = co_await client_.socket.write_all(head_, client_.timeouts->body_idle);
  head_.clear();
  co_return sent.status;
}

bool PassThrough::chunked_to_client() const {
  const Framing::Kind kind = upstream_->head().framing.kind;
  return client_.head.version == http::Version::http_1_1 &&
         (kind == Framing::Kind::chunked || kind == Framing::Kind::until_close);
}

void PassThrough::write_interim_head() {
  const http::ResponseHead& from = upstream_->head();
  fields_.clear();
  for (const http::Field& field : from.fields) {
    const bool left_out =
        from.hop_by_hop(field.name) || same_name(field.name, "Content-Length") || same_name(field.name, "X-Request-Id");
    if (!left_out) fields_.add(field);
  }
  const bool switches = from.status == 101;
  if (switches) fields_.add("Upgrade", from.find("Upgrade").value_or(""));
  write_head({.status = from.status,
              .reason = from.reason,
              .fields = fields_.view(),
              .connection = switches ? http::ConnectionField::upgrade : http::ConnectionField::none});
}

void PassThrough::write_head(const http::HeadToWrite& head) {
  head_.clear();
  http::append_head(head_, head);
}

// Collects the response's fields that are passed to the client, and those that Once adds.
void PassThrough::collect_fields() {
  const http::ResponseHead& from = upstream_->head();
  fields_.clear();
  bool dated = false;
  for (const http::Field& field : from.fields) {
    dated = dated || same_name(field.name, "Date");
    const bool left_out =
        from.hop_by_hop(field.name) || same_name(field.name, "X-Request-Id") || same_name(field.name, "Content-Length");
    if (!left_out) fields_.add(field);
  }
  add_own_fields(dated);
}

void PassThrough::add_own_fields(bool dated) {
  if (!dated) fields_.add("Date", request_->worker.date());
  add_request_id(fields_, request_->request_id, request_->wording);
  if (!etag_.empty()) fields_.add("ETag", etag_);
  // A client that sent a key believes that retries are safe: tell it that they are not. A backend that honours keys
  // itself has said so in this field.
  if (request_->key_ignored && !upstream_->head().find("Idempotency-Status")) {
    fields_.add("Idempotency-Status", "bypassed");
  }
  if (request_->cors != nullptr) request_->cors->apply(fields_);
}

// The body as the client gets it. The length may be that of a body that HEAD does not send.
Framing PassThrough::client_framing() const {
  const http::ResponseHead& from = upstream_->head();
  if (chunk_out_) return {.kind = Framing::Kind::chunked};
  if (from.framing.kind == Framing::Kind::length) return from.framing;
  const bool may_say = from.framing.kind == Framing::Kind::none && may_have_length(from.status);
  const auto length = may_say ? from.find("Content-Length") : std::nullopt;
  const auto number = length ? parse_number(*length) : std::nullopt;
  return number ? Framing{.kind = Framing::Kind::length, .length = *number} : Framing{};
}

http::ConnectionField PassThrough::connection_field(bool keep) const {
  if (!keep) return http::ConnectionField::close;
  return client_.head.version == http::Version::http_1_0 ? http::ConnectionField::keep_alive
                                                         : http::ConnectionField::none;
}

// A response that comes before the whole request may end the upload: then tell the client that its connection closes.
bool PassThrough::keeps_client(bool known_end) const {
  const bool uploaded = upload_ == Upload::none || upload_ == Upload::done;
  return known_end && uploaded && client_.head.persistence == http::Persistence::keep && !request_->closing;
}

Task<PassedResult> PassThrough::relay_body() {
  const http::ResponseHead& from = upstream_->head();
  if (request_->observer != nullptr) request_->observer->answered(from);
  client_.pace.conversation = true;
  events_ = is_event_stream(from);
  // Start watching here, to notice a client that left before it was known to get events, or while its upload was read.
  if (events_) watch_client();
  collect_fields();
  chunk_out_ = chunked_to_client();
  const bool known_end =
      chunk_out_ || from.framing.kind == Framing::Kind::length || from.framing.kind == Framing::Kind::none;
  const bool keep = keeps_client(known_end);
  write_head({.status = from.status,
              .reason = from.reason,
              .fields = fields_.view(),
              .framing = client_framing(),
              .connection = connection_field(keep)});
  PassedResult broken{.status = from.status, .keep = false, .whole = false, .problem = {}, .detail = {}};
  std::optional<BodyChunk> chunk;
  if (held_ && !held_->empty()) {
    chunk = BodyChunk{.kind = BodyChunk::Kind::data, .data = *held_};
  } else {
    chunk = upstream_->ready();
  }
  while (true) {
    if (!chunk) {
      // No more bytes are ready: send the head before waiting.
      const IoResult sent = co_await client_.socket.write_all(head_, client_.timeouts->body_idle);
      head_.clear();
      if (sent.status != Io::ok) break;
      chunk = co_await upstream_->next(longest_silence());
    }
    if (chunk->kind == BodyChunk::Kind::broken || chunk->kind == BodyChunk::Kind::timed_out) {
      sometimes<"pass: half a response">();
      // The client must not mistake half a body for a complete one.
      client_.socket.reset_on_close();
      broken.fault = upstream_->fault();
      co_return broken;
    }
    std::optional<BodyChunk> following;
    if (chunk->kind == BodyChunk::Kind::data) following = upstream_->ready();
    const bool last = chunk->kind == BodyChunk::Kind::end || (following && following->kind == BodyChunk::Kind::end);
    const bool more = following && following->kind == BodyChunk::Kind::data;
    const Io relayed = co_await relay_chunk(chunk->data, last, more);
    if (relayed != Io::ok) break;
    if (last) co_return PassedResult{.status = from.status, .keep = keep, .whole = true, .problem = {}, .detail = {}};
    chunk = following;
  }
  PassedResult unread = co_await read_rest_alone();
  co_return unread;
}

Task<PassedResult> PassThrough::read_rest_alone() {
  PassedResult result{.status = upstream_->head().status, .keep = false, .whole = false, .problem = {}, .detail = {}};
  auto rest = http::Transfer::cut_off;
  if (continues_without_client()) rest = co_await drain(*upstream_, request_->timeouts, client_.socket.loop());
  result.whole = rest == http::Transfer::whole;
  co_return result;
}

// Chunks that arrived together are relayed together: a small chunk is joined with the next one if that is already here.
Task<Io> PassThrough::relay_chunk(std::string_view data, bool last, bool more) {
  char size[18];
  http::WriteAll::Pieces pieces{head_, data};
  if (chunk_out_ && data.empty()) pieces = {head_, last ? http::last_chunk : ""};
  if (chunk_out_ && !data.empty()) {
    const std::size_t length = http::write_chunk_size(size, data.size());
    pieces = {head_, std::string_view(size, length), data, last ? "\r\n0\r\n\r\n" : "\r\n"};
  }
  if (data.size() <= http::small_body) {
    for (std::size_t i = 1; i < pieces.size(); ++i) head_.append(pieces[i]);
    pieces = {head_};
    if (more && head_.size() < most_joined) co_return Io::ok;
  }
  const IoResult sent = co_await client_.socket.write_all(pieces, client_.timeouts->body_idle);
  head_.clear();
  co_return sent.status;
}

}  // namespace once::gateway
