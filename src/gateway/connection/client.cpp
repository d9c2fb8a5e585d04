#include "gateway/connection/client.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"
#include "gateway/access_line.hpp"
#include "gateway/exchange/life.hpp"
#include "gateway/passthrough/shadow.hpp"
#include "http/tls_stream.hpp"
#include "http/trace_context.hpp"

namespace once {

using http::BodyChunk;
using http::Framing;
using http::HeadError;
using http::Io;
using http::IoResult;
using http::Parsed;
using http::Persistence;

namespace {

constexpr std::size_t body_window = 4096;  // room for body bytes behind the largest head
constexpr std::size_t max_request_id = 128;
constexpr std::size_t most_empty_lines = 4;
// A client that does not read must not hold up the exchange; it misses a hint.
constexpr Duration interim_limit = std::chrono::milliseconds(100);

// Written to logs and to a header of every reply, so only what is safe in both.
bool usable_request_id(std::string_view id) {
  if (id.empty() || id.size() > max_request_id) return false;
  return std::ranges::all_of(id, [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

Problem problem_of(HeadError error) {
  switch (error) {
    case HeadError::target_too_long: return problem(ProblemKind::uri_too_long, describe(error));
    case HeadError::too_large:
    case HeadError::too_many_fields: return problem(ProblemKind::headers_too_large, describe(error));
    case HeadError::bad_version: {
      Problem answer = problem(ProblemKind::bad_request, describe(error));
      answer.status = 505;
      return answer;
    }
    case HeadError::unsupported_coding:
    case HeadError::unsupported_method: {
      Problem answer = problem(ProblemKind::bad_request, describe(error));
      answer.status = 501;
      return answer;
    }
    case HeadError::bad_request_line:
    case HeadError::bad_field:
    case HeadError::bad_host:
    case HeadError::bad_framing:
    case HeadError::bad_status_line: break;
  }
  return problem(ProblemKind::bad_request, describe(error));
}

}  // namespace

Client::Client(Worker& worker, const http::Socket::Accepted& accepted, Over over, AddressTable::Share address)
    : worker_(worker),
      shared_(worker.shared()),
      address_(std::move(address)),
      generation_(worker.generation()),
      io_(worker.loop(), accepted),
      memory_(shared_.load, shared_.told, worker.loop(), worker.metrics(), *this),
      tag_room_(shared_.load),
      exchange_({.store = shared_.store,
                 .waiters = shared_.waiters,
                 .executions = shared_.executions,
                 .home = worker.loop(),
                 .clock = shared_.clock,
                 .random = worker.random(),
                 .metrics = worker.metrics(),
                 .log = shared_.log,
                 .errors_base = shared_.errors_base,
                 .memory = &memory_}),
      pass_(io_, worker.metrics()),
      wording_(&generation_->routes().common_wording()),
      body_(shared_.load) {
  io_.buffer.grow(first_buffer_size);
  io_.secure = over == Over::tls;
  if (io_.secure) io_.socket.secure(generation_->tls().accept());
  worker_.enter(*this);
}

Client::~Client() {
  may_need_store(false);
  worker_.leave(*this);
}

void Client::may_need_store(bool may) {
  if (may == may_need_store_) return;
  may_need_store_ = may;
  Counter& count = worker_.metrics().may_need_store;
  may ? count.add() : count.subtract();
}

void Client::close_if_idle() {
  const bool arrived = worker_.serves_arrived() && !io_.socket.quiet();
  if (idle_ && !arrived) io_.socket.cancel();
}

void Client::refuse_unread() {
  if (!reads_request_ || displaced_) return;
  unread_refused_ = true;
  io_.socket.cancel();
}

Task<void> Client::run() {
  if (io_.secure) keep_ = co_await shake_hands();
  while (keep_) {
    const Next next = co_await read_head();
    if (next == Next::close) break;
    if (next == Next::request) {
      begin_request();
      co_await answer();
    }
    may_need_store(false);
    account();
    shadow_.reset();
    reply_.reset();
    io_.buffer.unpin();
    body_.clear();
  }
  if (io_.socket.write_timed_out()) {
    // What the kernel still holds for it would stay until the client takes it.
    io_.socket.reset_on_close();
    worker_.metrics().slow_clients.add();
  } else if (body_unread_) {
    co_await linger();
  }
  // A response whose end is that of the stream is whole only when that is announced.
  if (io_.secure) co_await io_.socket.end_writing(worker_.generation()->settings().timeouts.body_idle);
}

// True: requests may come.
Task<bool> Client::shake_hands() {
  const ClientTimeouts& timeouts = generation_->settings().timeouts;
  idle_ = true;
  began_ = worker_.loop().now();
  waits_for_client_ = true;
  const Io status = co_await io_.socket.handshake(timeouts.header);
  waits_for_client_ = false;
  idle_ = false;
  const http::TlsStream& tls = *io_.socket.tls();
  if (status == Io::ok) {
    worker_.metrics().tls_handshakes.add();
    io_.tls_subject = tls.peer_subject();
    io_.tls_issuer = tls.peer_issuer();
    co_return true;
  }
  if (status == Io::cancelled) co_return false;
  worker_.metrics().tls_handshakes_failed.add();
  shared_.log.debug("TLS handshake failed", {{"reason", status == Io::failed ? tls.problem() : "it took too long"}});
  if (!tls.heard_http()) co_return false;
  io_.socket.make_plain();
  io_.secure = false;
  io_.timeouts = &timeouts;
  io_.head.persistence = Persistence::close;
  body_unread_ = true;
  Problem answer = problem(ProblemKind::bad_request, "This port requires TLS: use a URL that begins with https.");
  write_problem(reply_, std::move(answer), problem_form(), request_id_, Ending::rejected);
  co_await write_reply();
  co_return false;
}

// Nothing of the last request is to be said of the next, which may never be understood.
void Client::forget_last_request() {
  keyed_ = false;
  has_key_ = false;
  key_ignored_ = false;
  cors_.reset();
  trace_ = {};
  route_ = {};
  upstream_use_ = {};
  logged_from_ = io_.peer;
  io_.head.method = Method::other;
  io_.head.method_text = {};
  io_.head.path = {};
}

// From here on it counts as a request, with the settings of this moment.
void Client::note_first_bytes() {
  began_ = worker_.loop().now();
  fresh_ = false;
  may_need_store(true);
  generation_ = worker_.generation();
  counts_ = &generation_->counts_of_none();
  wording_ = &generation_->routes().common_wording();
  const ServingSettings& settings = generation_->settings();
  logged_ = worker_.access().draws(settings.access);
  sent_before_ = io_.socket.written();
  io_.timeouts = &settings.timeouts;
  io_.socket.set_least_rate(settings.limits.min_rate);
}

Task<Client::Next> Client::read_head() {
  forget_last_request();
  http::Buffer& buffer = io_.buffer;
  buffer.rewind();
  // Also with the next request in the buffer: the store may have been given up since the last one began.
  // A new connection was in the listener's queue when the drain began: its first request is served.
  if (worker_.idle_closed() && !(fresh_ && worker_.serves_arrived())) co_return Next::close;
  if (buffer.empty()) {
    const IoResult got = co_await wait_for_request();
    if (got.status != Io::ok) co_return Next::close;
    buffer.commit(got.bytes);
  }
  note_first_bytes();
  const ServingSettings& settings = generation_->settings();
  const http::HeadLimits limits{.max_bytes = settings.limits.max_header_bytes,
                                .max_fields = settings.limits.max_header_count,
                                .max_target = settings.limits.max_uri_bytes};
  std::size_t skipped = 0;
  http::HeadProgress progress;
  while (true) {
    // An empty line before a request is a common mistake, and harmless.
    while (buffer.unread().starts_with("\r\n") && skipped < most_empty_lines) {
      buffer.consume(2);
      ++skipped;
      progress = {};
    }
    if (!buffer.empty() && progress.worth_parsing(buffer.unread(), limits)) {
      buffer.rewind();
      const http::ParseResult result = http::parse(buffer.unread(), limits, io_.head);
      if (result.parsed == Parsed::bad) {
        co_await refuse(result.error);
        co_return Next::refused;
      }
      if (result.parsed == Parsed::complete) {
        if (buffer.capacity() >= io_.head.size + body_window) co_return Next::request;
        buffer.grow(io_.head.size + body_window);  // moves the bytes: parsed again on the next turn
        progress = {};
        continue;
      }
    }
    if (buffer.room().empty()) buffer.grow(std::min(buffer.capacity() * 2, limits.max_bytes + body_window));
    const Duration spent = std::chrono::floor<Duration>(worker_.loop().now() - began_);
    const Duration left = std::max(Duration(1), settings.timeouts.header - spent);
    waits_for_client_ = reads_request_ = true;
    const IoResult got = co_await io_.socket.read_some(buffer.room(), left);
    waits_for_client_ = reads_request_ = false;
    const bool refused = unread_refused_ && !displaced_;
    if (got.status == Io::ok && spent < settings.timeouts.header && !refused) {
      buffer.commit(got.bytes);
      continue;
    }
    if (got.status != Io::timed_out && got.status != Io::ok && !refused) co_return Next::close;
    request_id_.clear();
    io_.head.method_text = {};  // what was parsed of it may have moved
    io_.head.path = {};
    if (refused) {
      co_await answer_unread();
      co_return Next::refused;
    }
    co_await write_problem_reply(ProblemKind::request_timeout, "The request header did not arrive in time.");
    co_return Next::refused;
  }
}

Task<void> Client::refuse(HeadError error) {
  request_id_.clear();
  io_.head.method_text = {};
  io_.head.path = {};
  io_.head.persistence = Persistence::close;
  body_unread_ = true;
  write_problem(reply_, problem_of(error), problem_form(), request_id_, Ending::rejected);
  co_await write_reply();
}

void Client::begin_request() {
  io_.buffer.pin(io_.head.size);
  io_.body = http::BodyDecoder(io_.head.framing);
  io_.pace = {.least_rate = generation_->settings().limits.min_rate, .grace = io_.timeouts->body_idle};
  keyed_ = false;
  body_unread_ = false;
  if (logged_) begin_logging();
  const auto given = io_.head.find("X-Request-Id");
  request_id_.clear();
  if (given && usable_request_id(*given)) {
    request_id_.append(*given);
    return;
  }
  append_hex(request_id_, worker_.random().nonce().view());
}

void Client::begin_logging() {
  trace_ = http::trace_id(io_.head);
  if (trust() == PeerTrust::client) return;
  const auto address = client_address(io_.head, io_.peer, generation_->settings().trusted_proxies);
  if (!address) return;
  forwarded_from_ = address->text();
  logged_from_ = forwarded_from_;
}

// False: it is none, or not one that Once answers.
Task<bool> Client::answered_preflight() {
  const http::RequestHead& head = io_.head;
  if (!is_preflight(head)) co_return false;
  const auto path = normalise_path(head.path, route_path_);
  if (!path) co_return false;
  const Method method = parse_method(preflight_method(head));
  const RoutedPolicy asked = generation_->routes().find(method, *path, head.host);
  if (asked.policy == nullptr || !CorsGrant(*asked.policy, head).allowed()) co_return false;
  counts_ = &generation_->counts(asked);
  route_ = asked.route;
  wording_ = &asked.policy->wording;
  co_await answer_preflight(*asked.policy);
  co_return true;
}

Task<void> Client::answer() {
  const http::RequestHead& head = io_.head;
  const bool preflight = co_await answered_preflight();
  if (preflight) co_return;
  RoutedRequest routed = route_request(rules(), facts(), route_path_);
  const RoutedPolicy& route = routed.route;
  const Policy* policy = route.policy;
  normal_path_ = routed.path;
  counts_ = &generation_->counts(route);
  route_ = route.route;
  if (policy != nullptr) wording_ = &policy->wording;
  if (routed.refused) {
    co_await write_problem_reply(*std::move(routed.refused));
    co_return;
  }
  if (head.method == Method::options && hops_left(head) == 0) {
    co_await answer_options();
    co_return;
  }
  if (policy != nullptr && !policy->cors.origins.empty()) cors_.emplace(*policy, head);
  RequestKey key = find_request_key(policy, head);
  const bool shadowed = policy != nullptr && policy->mode == Mode::shadow;
  switch (key.kind) {
    case RequestKey::Kind::not_covered:
      has_key_ = key.ignored;
      key_ignored_ = key.ignored && !shadowed;  // a route in shadow mode says nothing to clients
      co_await answer_unkeyed(route);
      co_return;
    case RequestKey::Kind::none: co_await answer_unkeyed(route); co_return;
    case RequestKey::Kind::refused:
    case RequestKey::Kind::given:
    case RequestKey::Kind::derived: break;
  }
  if (shadowed) {
    co_await answer_shadow(route, std::move(key));
  } else if (key.problem) {
    co_await write_problem_reply(*std::move(key.problem));
  } else {
    co_await answer_keyed(route, key.given);
  }
}

KeyedRequest Client::keyed_request(const RoutedPolicy& routed, Backend& backend, const RequestIdentity& identity) {
  const http::RequestHead& head = io_.head;
  return {.policy = *routed.policy,
          .backend = backend,
          .counts = *counts_,
          .head = head,
          .body = whole_body_,
          .id = operation_,
          .fingerprint = identity.fingerprint(whole_body_),
          .request_id = request_id_,
          .tenant = tenant_of(identity.caller(), shared_.ids, tenant_),
          .route = routed.route,
          .interim = this,
          .strip_prefix = routed.strip_prefix,
          .origin = origin(),
          .presence = this,
          .life = is_of_life(*routed.policy, head.method)
                      ? std::optional(life_marker(shared_.ids, identity.host(), normal_path_))
                      : std::nullopt,
          .use = &upstream_use_};
}

Task<void> Client::answer_keyed(const RoutedPolicy& routed, const std::optional<Key>& key) {
  const Policy& policy = *routed.policy;
  const http::RequestHead& head = io_.head;
  const Limits& limits = generation_->settings().limits;
  const Load::Share share = shared_.load.begin(limits.max_in_flight);
  if (!share) {
    co_await refuse_overload(Overload::in_flight);
    co_return;
  }
  const RequestIdentity identity(rules(), facts(), policy);
  if (const auto refused = identity.caller_problem()) {
    shared_.log.debug("caller refused",
                      {{"request", request_id_}, {"reason", refused->detail}, {"trace", http::trace_id(head)}});
    co_await write_problem_reply(*refused);
    co_return;
  }
  if (identity.is_anonymous()) worker_.metrics().without_caller.add();
  CallerUse caller;
  if (limits.caller.any()) {
    const TenantTag& tag = tenant_.of(shared_.ids, identity.caller());
    caller = CallerUse(shared_.callers, tag, limits.caller, worker_.loop().now());
    if (!caller) {
      co_await refuse_caller(at_work_refusal);
      co_return;
    }
  }
  std::optional<BodyRead> read = body_at_hand(policy.max_request_body);
  if (!read) read = co_await read_body(policy.max_request_body);
  if (*read != BodyRead::whole) {
    co_await refuse_body(*read);
    co_return;
  }
  auto operation = identity.operation(key, whole_body_);
  if (!operation) {
    co_await write_problem_reply(std::move(operation.error()));
    co_return;
  }
  keyed_ = true;
  operation_ = *operation;
  const std::optional<TenantTag> address = identity.limited_address();
  if (caller || address) {
    const auto refusal = co_await refused_key(caller, address);
    if (refusal) {
      co_await refuse_caller(*refusal);
      co_return;
    }
  }
  Backend* backend = &generation_->backend(routed.upstream);
  std::optional<LifeEnd> end;
  std::optional<LifeEndingBackend> ending;
  if (ends_life(policy, head.method)) {
    end.emplace(exchange_.ports(), policy, life_marker(shared_.ids, identity.host(), normal_path_), head, request_id_);
    backend = &ending.emplace(*backend, *end, policy);
  }
  std::optional<GuardedBackend> guarded;
  if (guards_write(policy, head.method))
    backend = &guarded.emplace(*backend, guard(), policy, request_id_, normal_path_);
  const KeyedRequest request = keyed_request(routed, *backend, identity);
  memory_.begin(limits.max_body_memory);
  {
    const AtWork::Entry at_work(worker_.metrics().at_work, worker_.loop().now());
    co_await exchange_.run(request, reply_);
  }
  count_for(caller, address, policy);
  body_.clear();                                 // a client that reads slowly holds no more than what it reads
  may_need_store(guarded && guard_->entered());  // nor does it hold up a handover
  const bool whole = co_await write_reply();
  if (guarded && guard_->entered()) co_await leave_after_stream(policy, whole);
}

// While a keyed request is at the backend. A client that is gone misses nothing that matters.
Task<void> Client::interim(const http::ResponseHead& head) {
  if (io_.head.version == http::Version::http_1_0) co_return;
  std::string text = "HTTP/1.1 ";
  append_number(text, static_cast<std::uint64_t>(head.status));
  text.append(" ").append(head.reason).append("\r\n");
  for (const http::Field& field : head.fields) {
    if (!head.hop_by_hop(field.name) && !same_name(field.name, "Content-Length")) text.append(field.line);
  }
  text.append("\r\n");
  const IoResult sent = co_await io_.socket.write_all(text, interim_limit);
  if (sent.status == Io::ok || sent.bytes == 0) co_return;
  // Nothing can follow half a hint. The request goes on; its client finds the answer when it asks again.
  io_.socket.reset_on_close();
  io_.socket.cancel();
}

Task<void> Client::answer_preflight(const Policy& policy) {
  if (once::answer_preflight(policy, io_.head, request_id_, reply_) == Preflight::malformed) {
    co_await write_problem_reply(ProblemKind::bad_request,
                                 "The preflight request asks for an invalid method or header name.");
    co_return;
  }
  worker_.metrics().preflights.add();
  close_unless_read();
  co_await write_reply();
}

// As the last one that its Max-Forwards allows. What the backend allows is not known here.
Task<void> Client::answer_options() {
  reply_.reset();
  reply_.status = 204;
  reply_.ending = Ending::passed;
  reply_.head.append("HTTP/1.1 204 No Content\r\nX-Request-Id: ").append(request_id_).append("\r\n");
  close_unless_read();
  co_await write_reply();
}

void Client::account() {
  Metrics& metrics = worker_.metrics();
  const auto spent = monotonic_now() - began_;
  const auto ending = static_cast<std::size_t>(reply_.ending);
  metrics.requests[ending].add();
  counts_->requests[ending].add();
  metrics.duration_ns[ending].observe(static_cast<std::uint64_t>(spent.count()));
  if (reply_.status >= 100) metrics.responses[static_cast<std::size_t>(reply_.status / 100)].add();
  if (!logged_) return;
  const AccessLine line{.request_id = request_id_,
                        .client = logged_from_,
                        .method = io_.head.method_text,
                        .path = io_.head.path,
                        .route = route_,
                        .status = reply_.status,
                        .ending = reply_.ending,
                        .bytes = io_.socket.written() - sent_before_,
                        .attempt = reply_.attempt,
                        .spent = spent,
                        .upstream = upstream_use_,
                        .operation = keyed_ ? std::optional(operation_) : std::nullopt,
                        .trace = trace_};
  if (shadow_) {
    shadow_->account(line);
  } else {
    worker_.access().write(line, "");
  }
}

}  // namespace once
