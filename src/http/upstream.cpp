#include "http/upstream.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "http/net.hpp"
#include "http/tls_context.hpp"

namespace once::http {

namespace {

constexpr std::size_t first_buffer = 8192;
constexpr std::size_t body_window = 4096;                       // space for body bytes after the largest head
constexpr std::size_t kept_collected = std::size_t{64} << 10U;  // memory kept by a connection that is reused
constexpr Duration asked_after = std::chrono::milliseconds(10);
constexpr Duration clean_up_every = std::chrono::seconds(1);
constexpr Duration peak_window = std::chrono::seconds(10);
constexpr std::size_t least_kept = 16;  // connections, busy and idle, kept however few were in use

// How long a connection may be idle: half of what the backend announced ("Keep-Alive: timeout=5, max=100"), so that it
// is never used just when the backend closes it.
Duration promised_rest(const ResponseHead& head) {
  constexpr Duration any = std::chrono::hours(24);
  constexpr std::string_view name = "timeout=";
  std::string_view rest = head.find("Keep-Alive").value_or(std::string_view());
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view item = trim(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (!same_name(item.substr(0, name.size()), name)) continue;
    const std::uint64_t seconds = parse_number(item.substr(name.size())).value_or(0);
    return seconds < 86'400 ? Duration(std::chrono::seconds(seconds)) / 2 : any;
  }
  return any;
}

ResponseFault fault_of(HeadError error) {
  switch (error) {
    case HeadError::bad_version: return ResponseFault::version;
    case HeadError::bad_field: return ResponseFault::field;
    case HeadError::bad_framing: return ResponseFault::framing;
    case HeadError::unsupported_coding: return ResponseFault::coding;
    case HeadError::too_large:
    case HeadError::too_many_fields: return ResponseFault::too_large;
    case HeadError::bad_status_line:
    // Errors of requests only.
    case HeadError::bad_request_line:
    case HeadError::bad_host:
    case HeadError::target_too_long:
    case HeadError::unsupported_method: break;
  }
  return ResponseFault::status_line;
}

}  // namespace

std::string_view name_of(ResponseFault fault) {
  switch (fault) {
    case ResponseFault::status_line: return "status-line";
    case ResponseFault::version: return "version";
    case ResponseFault::field: return "field";
    case ResponseFault::framing: return "framing";
    case ResponseFault::coding: return "coding";
    case ResponseFault::too_large: return "too-large";
    case ResponseFault::chunk: return "chunk";
    case ResponseFault::interim: return "interim";
    case ResponseFault::unasked_switch: return "unasked-switch";
  }
  return "";
}

UpstreamConnection::UpstreamConnection(UpstreamPool& pool, Loop& loop, int fd, const Endpoint& endpoint)
    : pool_(pool), endpoint_(endpoint), socket_(loop, fd) {
  buffer_.grow(first_buffer);
  if (pool_.open_ != nullptr) pool_.open_->fetch_add(1, std::memory_order_relaxed);
}

UpstreamConnection::~UpstreamConnection() {
  release_collected();
  if (pool_.open_ != nullptr) pool_.open_->fetch_sub(1, std::memory_order_relaxed);
}

Duration UpstreamConnection::left_until(std::chrono::nanoseconds deadline) const {
  return std::max(Duration::zero(), std::chrono::ceil<Duration>(deadline - socket_.loop().now()));
}

Task<UpstreamConnection::HeadRead> UpstreamConnection::read_head(Method answers, std::chrono::nanoseconds deadline) {
  response_read_ = false;
  fault_.reset();
  HeadProgress progress;
  while (true) {
    if (!buffer_.empty() && progress.worth_parsing(buffer_.unread(), pool_.head_limits_)) {
      const ParseResult result = parse(buffer_.unread(), pool_.head_limits_, answers, head_);
      if (result.parsed == Parsed::bad) {
        fault_ = fault_of(result.error);
        co_return HeadRead::broken;
      }
      if (result.parsed == Parsed::complete) {
        const bool more_to_read = head_.framing.kind != Framing::Kind::none || head_.status == 101;
        if (buffer_.capacity() < head_.size + body_window && more_to_read) {
          buffer_.grow(head_.size + body_window);  // moves the bytes, so the head is parsed again in the next round
          progress = {};
          continue;
        }
        interim_ = head_.status < 200 ? interim_ + 1 : 0;
        if (interim_ > most_interim_responses) {
          fault_ = ResponseFault::interim;
          co_return HeadRead::broken;
        }
        buffer_.pin(head_.size);
        body_ = BodyDecoder(head_.framing);
        co_return HeadRead::ok;
      }
    }
    if (buffer_.room().empty())
      buffer_.grow(std::min(buffer_.capacity() * 2, pool_.head_limits_.max_bytes + body_window));
    const IoResult got = co_await socket_.read_some(buffer_.room(), left_until(deadline));
    if (got.status == Io::timed_out) co_return HeadRead::timed_out;
    if (got.status != Io::ok) co_return buffer_.empty() ? HeadRead::no_bytes : HeadRead::broken;
    buffer_.commit(got.bytes);
  }
}

void UpstreamConnection::drop_head() {
  buffer_.rewind();
}

Task<BodyChunk> UpstreamConnection::next(Duration limit) {
  release_collected();
  widen_for_more();
  return next_until(socket_.loop().now() + limit);
}

void UpstreamConnection::widen_for_more() {
  if (buffer_.filled()) buffer_.try_widen(socket_.loop().windows());
}

std::optional<BodyChunk> UpstreamConnection::ready() {
  const BodyDecoder::Step step = body_.next(buffer_);
  switch (step.kind) {
    case BodyDecoder::Kind::data: return BodyChunk{.kind = BodyChunk::Kind::data, .data = step.data};
    case BodyDecoder::Kind::bad:
      fault_ = ResponseFault::chunk;
      return BodyChunk{.kind = BodyChunk::Kind::broken, .data = {}};
    case BodyDecoder::Kind::end:
      response_read_ = head_.persistence == Persistence::keep && buffer_.empty();
      return BodyChunk{.kind = BodyChunk::Kind::end, .data = {}};
    case BodyDecoder::Kind::need_more: break;
  }
  return std::nullopt;
}

Task<BodyChunk> UpstreamConnection::next_until(std::chrono::nanoseconds deadline) {
  while (true) {
    if (const auto chunk = ready()) co_return *chunk;
    const IoResult got = co_await socket_.read_some(buffer_.room(), left_until(deadline));
    if (got.status == Io::timed_out) co_return BodyChunk{.kind = BodyChunk::Kind::timed_out, .data = {}};
    if (got.status == Io::end && body_.end_of_stream()) continue;
    if (got.status != Io::ok) co_return BodyChunk{.kind = BodyChunk::Kind::broken, .data = {}};
    buffer_.commit(got.bytes);
  }
}

std::optional<UpstreamConnection::Collected> UpstreamConnection::body_at_hand(std::size_t limit) {
  const std::string_view unread = buffer_.unread();
  if (head_.framing.kind != Framing::Kind::length || head_.framing.length != unread.size() || unread.size() > limit) {
    return std::nullopt;
  }
  body_.next(buffer_);
  response_read_ = head_.persistence == Persistence::keep;
  return Collected{.kind = BodyChunk::Kind::end, .whole = true, .data = unread};
}

Task<UpstreamConnection::Collected> UpstreamConnection::collect(std::size_t limit, std::chrono::nanoseconds deadline,
                                                                CollectRoom* room, const Patience* patience) {
  collected_.clear();
  room_ = room;
  const bool announced = head_.framing.kind == Framing::Kind::length;
  while (true) {
    widen_for_more();
    const std::size_t most = limit + buffer_.capacity();
    // Reserve before reading: bytes without memory would have nowhere to go.
    const std::size_t needed = announced ? static_cast<std::size_t>(std::min<std::uint64_t>(head_.framing.length, most))
                                         : collected_.size() + buffer_.capacity();
    if (needed > collected_.capacity() || (room_ != nullptr && needed > room_taken_)) {
      const Reserved grown = co_await grow_collected(needed, most);
      if (grown == Reserved::no) co_return Collected{.kind = BodyChunk::Kind::data, .whole = false, .data = collected_};
    }
    const BodyChunk chunk = co_await next_until(deadline);
    const bool timed_out = chunk.kind == BodyChunk::Kind::timed_out;
    if (timed_out && patience != nullptr && patience->extend(deadline)) continue;
    if (chunk.kind == BodyChunk::Kind::data) {
      collected_.append(chunk.data);
      if (collected_.size() <= limit) continue;
      co_return Collected{.kind = chunk.kind, .whole = false, .data = collected_};
    }
    const bool whole = chunk.kind == BodyChunk::Kind::end;
    co_return Collected{.kind = chunk.kind, .whole = whole, .data = collected_};
  }
}

// Doubles the buffer up to its maximum; if the length was announced, it gets its final size at once.
Task<Reserved> UpstreamConnection::grow_collected(std::size_t needed, std::size_t most) {
  const std::size_t wanted = std::max(needed, std::min(collected_.size() * 2, most));
  if (room_ != nullptr && wanted > room_taken_) {
    const Reserved taken = co_await room_->take(wanted - room_taken_);
    if (taken == Reserved::no) co_return Reserved::no;
    room_taken_ = wanted;
  }
  collected_.reserve(wanted);
  co_return Reserved::yes;
}

void UpstreamConnection::release_collected() {
  if (room_taken_ > 0) room_->give_back(room_taken_);
  if (collected_.capacity() > kept_collected) std::string().swap(collected_);
  room_taken_ = 0;
  room_ = nullptr;
}

void UpstreamConnection::done() {
  release_collected();
  UpstreamPool& pool = pool_;
  const bool was_busy = busy_;
  if (request_written_ && response_read_) {
    pool.give_back(*this);
  } else {
    sometimes<"pool: a connection is not used again">();
    delete this;
  }
  if (was_busy) pool.let_go();
}

UpstreamPool::UpstreamPool(Loop& loop, const Addresses& addresses, const PoolLimits& limits,
                           const HeadLimits& head_limits, std::atomic<std::uint64_t>* open, TlsPeer* tls)
    : loop_(loop),
      addresses_(addresses),
      generation_(addresses.generation()),
      endpoints_(addresses.current()),
      limits_(limits),
      head_limits_(head_limits),
      tls_(tls),
      open_(open) {
  fire = [](Timer& timer) { static_cast<UpstreamPool&>(timer).close_old(); };
}

UpstreamPool::~UpstreamPool() {
  loop_.disarm(*this);
}

// Connections in use end normally, whatever their address; idle ones to an address that is gone are closed.
void UpstreamPool::follow_addresses() {
  const std::uint64_t generation = addresses_.generation();
  if (generation == generation_) return;
  generation_ = generation;
  endpoints_ = addresses_.current();
  std::erase_if(idle_, [this](const auto& connection) { return !contains(*endpoints_, connection->endpoint_); });
  for (const auto& connection : idle_) connection->generation_ = generation_;
}

void UpstreamPool::let_go() {
  --busy_;
  if (listener_ != nullptr) listener_->connection_free();
}

void UpstreamPool::give_back(UpstreamConnection& connection) {
  std::unique_ptr<UpstreamConnection> owned(&connection);
  owned->busy_ = false;
  owned->longest_idle_ = promised_rest(owned->head_);
  if (owned->longest_idle_ == Duration::zero()) return;
  follow_addresses();
  if (owned->generation_ != generation_) {
    if (!contains(*endpoints_, owned->endpoint_)) return;
    owned->generation_ = generation_;
  }
  owned->buffer_.clear();
  owned->reused_ = true;
  owned->request_written_ = false;
  owned->response_read_ = false;
  owned->idle_since_ = loop_.now();
  if (idle_.empty() && !armed()) loop_.arm(*this, clean_up_every);
  idle_.push_back(std::move(owned));
  drop_surplus(busy_ - 1);  // this one is still counted
}

// Keeps no more connections, idle and busy, than were in use at a time in this window or the previous one. Closes those
// that were idle the longest: if the pool were full of connections too old for keyed requests, each keyed request would
// make a new one.
void UpstreamPool::drop_surplus(std::size_t busy) {
  const std::size_t wanted = std::max({peak_, peak_before_, least_kept});
  const std::size_t most = std::min(limits_.max_idle, wanted > busy ? wanted - busy : 0);
  if (idle_.size() <= most) return;
  const auto surplus = static_cast<std::ptrdiff_t>(idle_.size() - most);
  idle_.erase(idle_.begin(), idle_.begin() + surplus);
}

void UpstreamPool::use_one() {
  peak_ = std::max(peak_, ++busy_);
}

UpstreamConnectionPtr UpstreamPool::take_idle(Duration longest_idle) {
  follow_addresses();
  while (!idle_.empty()) {
    const auto idle_time = loop_.now() - idle_.back()->idle_since_;
    if (idle_time > longest_idle) return nullptr;
    std::unique_ptr<UpstreamConnection> connection = std::move(idle_.back());
    idle_.pop_back();
    if (idle_time > connection->longest_idle_) continue;
    // If the backend closed the connection while it was idle, its failure would look like a lost request. After a very
    // short idle time the events seen so far are enough; otherwise ask the kernel.
    const bool just_now = idle_time < asked_after;
    const bool open = just_now ? !connection->socket_.disturbed() : connection->socket_.quiet();
    sometimes<"pool: an idle connection was closed by its server">(!open);
    if (!open) continue;
    use_one();
    connection->busy_ = true;
    return UpstreamConnectionPtr(connection.release());
  }
  return nullptr;
}

// Closes idle connections, for one that is about to be made.
void UpstreamPool::make_room() {
  if (limits_.max_open == 0) return;
  while (!idle_.empty() && busy_ + idle_.size() >= limits_.max_open) idle_.erase(idle_.begin());
}

// Without free descriptors, idle connections are closed for this one.
Result<int> UpstreamPool::start(const Endpoint& endpoint) {
  auto fd = start_connect(loop_.net(), endpoint);
  while (!fd && fd.error().retryable == Retryable::yes && !idle_.empty()) {
    idle_.erase(idle_.begin());
    fd = start_connect(loop_.net(), endpoint);
  }
  if (!fd && fd.error().retryable == Retryable::yes) {
    loop_.report_out_of_descriptors(DescriptorUse::upstream, fd.error().detail);
  }
  return fd;
}

Task<UpstreamConnectionPtr> UpstreamPool::connect(Duration limit, ConnectFault* fault) {
  if (fault != nullptr) *fault = ConnectFault::not_reached;
  follow_addresses();
  make_room();
  use_one();
  const std::shared_ptr<const Endpoints> endpoints = endpoints_;  // a copy, because they may change
  const std::uint64_t generation = generation_;
  for (const Endpoint& endpoint : *endpoints) {
    const auto fd = start(endpoint);
    if (!fd && fd.error().retryable == Retryable::yes) {
      // Other addresses would need a descriptor too.
      sometimes<"pool: out of descriptors">();
      if (fault != nullptr) *fault = ConnectFault::out_of_descriptors;
      break;
    }
    if (!fd) continue;
    auto connection = UpstreamConnectionPtr(new UpstreamConnection(*this, loop_, *fd, endpoint));
    connecting_.push_back(connection.get());
    const auto deadline = loop_.now() + limit;
    Io status = co_await connection->socket_.connected(limit);
    if (status == Io::ok && tls_ != nullptr) {
      status = co_await secure(connection->socket_, connection->left_until(deadline));
    }
    std::erase(connecting_, connection.get());
    if (status == Io::ok) {
      connection->busy_ = true;
      connection->generation_ = generation;
      co_return std::move(connection);
    }
    if (status == Io::cancelled) break;
  }
  let_go();
  co_return UpstreamConnectionPtr();
}

// Done before anything is sent: if the handshake fails, the backend has received no request.
Task<Io> UpstreamPool::secure(Socket& socket, Duration limit) {
  socket.secure(tls_->connect());
  const Io status = co_await socket.handshake(limit);
  tls_->handshake_ended(*socket.tls(), status);
  co_return status;
}

void UpstreamPool::cancel_connects() {
  for (UpstreamConnection* connection : connecting_) connection->socket_.cancel();
}

void UpstreamPool::close_old() {
  follow_addresses();
  const auto old = [this](const std::unique_ptr<UpstreamConnection>& connection) {
    return loop_.now() - connection->idle_since_ > limits_.idle_max;
  };
  std::erase_if(idle_, old);
  if (loop_.now() - peak_since_ >= peak_window) {
    peak_before_ = std::exchange(peak_, busy_);
    peak_since_ = loop_.now();
  }
  drop_surplus(busy_);
  if (!idle_.empty()) loop_.arm(*this, clean_up_every);
}

}  // namespace once::http
