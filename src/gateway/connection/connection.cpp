#include "gateway/connection/connection.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"
#include "gateway/access_line.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/passthrough/shadow.hpp"
#include "gateway/upstream/forward.hpp"
#include "http/tls_stream.hpp"

namespace once::gateway {

using http::Io;
using http::IoResult;

namespace {

constexpr std::size_t first_buffer_size = 8192;

// How long a connection is idle before it releases its memory.
constexpr Duration rest_after = std::chrono::seconds(1);

// The wait for the first request of a connection that the kernel accepted before the drain began.
constexpr Duration first_request_wait = std::chrono::seconds(1);

// Limits for lingering after a reply to a request that was not read completely. Most client libraries read the reply
// only after they have sent the whole request.
constexpr Duration linger_limit = std::chrono::seconds(30);
constexpr Duration linger_silence = std::chrono::seconds(2);
constexpr Duration linger_draining = std::chrono::seconds(1);  // when the process is ending
constexpr std::uint64_t linger_bytes = std::uint64_t{256} << 20U;

}  // namespace

Connection::Connection(Worker& worker, const http::Socket::Accepted& accepted, Over over, AddressTable::Share address)
    : worker_(worker),
      address_(std::move(address)),
      io_(worker.loop(), accepted),
      writer_(worker, io_),
      reader_(worker, io_, writer_, *this),
      keyed_(worker, io_, reader_, writer_, {.room = *this, .place = *this}),
      unkeyed_(worker, io_, reader_, writer_, keyed_.ports()) {
  io_.buffer.grow(first_buffer_size);
  io_.secure = over == Over::tls;
  if (io_.secure) io_.socket.secure(worker_.generation()->tls().accept());
  worker_.enter(*this);
}

Connection::~Connection() {
  worker_.leave(*this);
}

ServedConnection::Closed Connection::close_if_idle() {
  const bool arrived = worker_.serves_arrived() && !io_.socket.quiet();
  if (!idle_ || arrived) return Closed::no;
  io_.socket.cancel();
  return Closed::yes;
}

bool Connection::holds(Scarce what) const {
  const Reply& reply = writer_.reply();
  switch (what) {
    case Scarce::connections: return true;
    case Scarce::spool: return reader_.is_spooling();
    case Scarce::body_memory: break;
  }
  return reply.body.size() > SharedOutcomes::largest_uncounted || (reply.streams && reply.source != nullptr) ||
         reader_.is_collecting();
}

void Connection::client_closed() {
  if (half_closed || io_.socket.hung_up()) return;
  address_.client_left();
  worker_.client_left(*this);
}

void Connection::hang_up() {
  if (io_.socket.hung_up()) return;
  address_.client_left();
  io_.socket.hang_up();
  worker_.hung_up(*this);
}

Task<void> Connection::run() {
  After after = After::keep;
  if (io_.secure) after = co_await shake_hands();
  while (after == After::keep) {
    io_.buffer.rewind();
    if (!may_take_another()) break;
    Io came = Io::ok;
    if (io_.buffer.empty()) came = co_await wait_for_request();
    if (came != Io::ok) break;
    // A request counts from its first bytes on, unless the client leaves before the head is complete.
    fresh_ = false;
    RequestContext request(worker_, io_, scratch_);
    const RequestReader::MessageRead read = co_await reader_.read_head(request);
    if (read == RequestReader::MessageRead::closed) break;
    if (read == RequestReader::MessageRead::whole) co_await answer(request);
    after = end(request);
  }
  sometimes<"connection: the client does not read its response">(io_.socket.write_timed_out());
  sometimes<"connection: lingers">(after == After::linger);
  if (io_.socket.write_timed_out()) {
    // Reset the connection, or the kernel would keep the unsent bytes until the client reads them.
    io_.socket.reset_on_close();
    worker_.metrics().slow_clients.add();
  } else if (after == After::linger) {
    co_await linger();
  }
  // A response that ends with the connection is only complete with a TLS close_notify.
  if (io_.secure) co_await io_.socket.end_writing(worker_.generation()->settings().timeouts.body_idle);
}

Task<After> Connection::shake_hands() {
  idle_ = true;
  io_.head_awaited_since = worker_.loop().now();
  const Io status = co_await io_.socket.handshake(worker_.generation()->settings().timeouts.header);
  io_.head_awaited_since.reset();
  idle_ = false;
  const http::TlsStream& tls = *io_.socket.tls();
  if (status == Io::ok) {
    worker_.metrics().tls_handshakes.add();
    io_.tls_subject = tls.peer_subject();
    io_.tls_issuer = tls.peer_issuer();
    co_return After::keep;
  }
  if (status == Io::cancelled) co_return After::close;
  worker_.metrics().tls_handshakes_failed.add();
  worker_.shared().log.debug("TLS handshake failed",
                             {{"reason", status == Io::failed ? tls.problem() : "it took too long"}});
  if (!tls.heard_http()) co_return After::close;
  co_await refuse_plain_http();
  co_return After::linger;
}

Task<void> Connection::refuse_plain_http() {
  io_.socket.make_plain();
  io_.secure = false;
  RequestContext request(worker_, io_, scratch_);
  request.store_need.end();
  request.close_unread();
  co_await writer_.write_problem(
      request, problem(ProblemKind::bad_request, "This port requires TLS: use a URL that begins with https."));
}

// Once idle connections were closed for a drain, the connection serves no further request, not even one that is already
// in its buffer: the store may have been handed over. A new connection that was in the listener's queue when the drain
// began may send its first request.
bool Connection::may_take_another() const {
  return !worker_.idle_closed() || (fresh_ && worker_.serves_arrived());
}

Task<Io> Connection::wait_for_request() {
  const Duration idle = worker_.idle_closed() ? first_request_wait : worker_.generation()->settings().timeouts.idle;
  idle_ = true;
  IoResult got = co_await io_.socket.read_some(io_.buffer.room(), std::min(idle, rest_after));
  if (got.status == Io::timed_out && idle > rest_after) {
    release_memory();
    worker_.set_idle(*this);
    got.status = co_await io_.socket.readable(idle - rest_after);
    if (in_idle_list) worker_.wakes(*this);
    io_.buffer.grow(first_buffer_size);
    // With TLS, readable may mean a partial record, which is no request yet.
    const Duration header = worker_.generation()->settings().timeouts.header;
    if (got.status == Io::ok) got = co_await io_.socket.read_some(io_.buffer.room(), header);
  }
  idle_ = false;
  if (got.status == Io::ok) io_.buffer.commit(got.bytes);
  co_return got.status;
}

Task<void> Connection::answer(RequestContext& request) {
  const http::RequestHead& head = io_.head;
  request.head_arrived(worker_.random());
  if (came_through(head, worker_.shared().via)) {
    sometimes<"connection: a request comes back to its gateway">();
    co_await writer_.write_problem(
        request,
        problem(ProblemKind::loop_detected,
                "This gateway has sent the request to a backend that leads back to it. Nothing was executed."));
    co_return;
  }
  if (is_preflight(head)) {
    const Answered answered = co_await answer_preflight_of(request);
    if (answered == Answered::yes) co_return;
  }
  if (KeyedHandler::asks_lookup(head)) {
    co_await keyed_.look_up(request, scratch_.path);
    co_return;
  }
  if (KeyedHandler::asks_stop(head)) {
    co_await keyed_.stop(request, scratch_.path);
    co_return;
  }
  RoutedRequest routed = route_request(request.rules(), request.facts(), scratch_.path);
  request.take_route(routed.route);
  request.path = routed.path;
  const Policy* policy = request.route.policy;
  if (policy != nullptr && !policy->cors.origins.empty()) request.cors.emplace(*policy, head);
  if (routed.refused) {
    sometimes<"identity: a backend could read another request">();
    co_await writer_.write_problem(request, *std::move(routed.refused));
    co_return;
  }
  if (head.method == Method::options && hops_left(head) == 0) {
    co_await writer_.write_no_content(request);
    co_return;
  }
  RequestKey key = find_request_key(policy, head);
  const bool shadowed = policy != nullptr && policy->mode == Mode::shadow;
  switch (key.kind) {
    case RequestKey::Kind::not_covered:
      request.key_ignored = key.ignored;
      request.says_ignored = key.ignored && !shadowed;  // clients of a route in shadow mode see no headers of Once
      co_await unkeyed_.answer(request);
      co_return;
    case RequestKey::Kind::none: co_await unkeyed_.answer(request); co_return;
    case RequestKey::Kind::refused:
    case RequestKey::Kind::given:
    case RequestKey::Kind::derived: break;
  }
  if (shadowed) {
    co_await unkeyed_.answer_shadowed(request, std::move(key));
  } else if (key.problem) {
    sometimes<"identity: a required key is missing">(key.problem->kind == ProblemKind::key_required);
    sometimes<"identity: an invalid key">(key.problem->kind == ProblemKind::key_invalid);
    co_await writer_.write_problem(request, *std::move(key.problem));
  } else {
    co_await keyed_.answer(request, key.given);
  }
}

Task<Answered> Connection::answer_preflight_of(RequestContext& request) {
  const http::RequestHead& head = io_.head;
  const auto path = normalise_path(head.path, scratch_.path);
  if (!path) co_return Answered::no;
  RoutedPolicy asked{};
  bool allowed = false;
  Method named{};
  for (const Method method : preflight_routes(head, named)) {
    if (allowed) break;
    asked = request.generation->routes().find(method, *path, head.host);
    allowed = asked.policy != nullptr && CorsGrant(*asked.policy, head).allowed();
  }
  if (!allowed) co_return Answered::no;
  request.take_route(asked);
  if (answer_preflight(*asked.policy, head, request.id(), writer_.reply()) == Preflight::malformed) {
    co_await writer_.write_problem(
        request, problem(ProblemKind::bad_request, "The preflight request asks for an invalid method or header name."));
    co_return Answered::yes;
  }
  worker_.metrics().preflights.add();
  request.close_unless_read();
  co_await writer_.write(request);
  co_return Answered::yes;
}

After Connection::end(RequestContext& request) {
  request.store_need.end();
  Metrics& metrics = worker_.metrics();
  Reply& reply = writer_.reply();
  const auto spent = worker_.loop().net().now() - request.began;
  const auto ending = static_cast<std::size_t>(reply.ending);
  metrics.requests[ending].add();
  request.counts->requests[ending].add();
  metrics.duration_ns[ending].observe(static_cast<std::uint64_t>(spent.count()));
  if (reply.status >= 100) metrics.responses[static_cast<std::size_t>(reply.status / 100)].add();
  if (request.logged) log_access(request, spent);
  reply.reset();
  io_.buffer.unpin();
  reader_.drop_body();
  return request.after();
}

void Connection::log_access(const RequestContext& request, std::chrono::nanoseconds spent) {
  const Reply& reply = writer_.reply();
  const AccessLine line{.request_id = request.id(),
                        .client = request.client_address,
                        .method = io_.head.method_text,
                        .path = io_.head.path,
                        .route = request.route.route,
                        .status = reply.status,
                        .ending = reply.ending,
                        .bytes = io_.socket.written() - request.sent_before,
                        .attempt = reply.attempt,
                        .spent = spent,
                        .upstream = request.upstream_use,
                        .operation = request.operation,
                        .trace = request.trace};
  if (request.shadow) {
    request.shadow->account(line);
  } else {
    worker_.access().write(line, "");
  }
}

// Closing with unread bytes would reset the connection and could destroy the reply in flight. So read and discard the
// rest of the request, within limits.
Task<void> Connection::linger() {
  io_.socket.shut_down_writing();
  const auto began = worker_.loop().now();
  // A client that still sends at a decent speed will read the reply; a slow one may be displaced, like any client that
  // sends slowly.
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

void Connection::release_memory() {
  io_.buffer.release();
  reader_.release_memory();
  writer_.release_memory();
  keyed_.release_memory();
  unkeyed_.release_memory();
}

}  // namespace once::gateway
