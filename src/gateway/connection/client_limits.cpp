// What keeps one client, or all of them together, from taking more of the gateway than they may.
#include <algorithm>

#include "gateway/connection/client.hpp"
#include "http/trace_context.hpp"

namespace once {

using http::Io;
using http::IoResult;

namespace {

// A connection that is used all the time keeps what it needs for the next request.
constexpr Duration rest_after = std::chrono::seconds(1);

// For the first request of a connection that the kernel let in before the drain began.
constexpr Duration first_request_wait = std::chrono::seconds(1);

// Bytes a second. A client that keeps to it is never displaced.
constexpr std::chrono::nanoseconds::rep decent_rate = 16'384;

// What a store takes for a key beside its outcome: two records of the journal.
constexpr std::size_t bytes_of_record = 384;

std::string describe(CallerLimit limit) {
  switch (limit) {
    case CallerLimit::in_flight: return "This caller has reached its limit of concurrent requests. Retry later.";
    case CallerLimit::new_keys: return "This caller has reached its limit of new keys per second. Retry later.";
    case CallerLimit::stored_bytes: return "This caller has used up its quota of stored responses. Retry later.";
    case CallerLimit::address_new_keys:
      return "This address has reached its limit of new keys per second. Retry later.";
    case CallerLimit::address_stored_bytes:
      return "This address has used up its quota of stored responses. Retry later.";
  }
  return "";
}

}  // namespace

Task<IoResult> Client::wait_for_request() {
  const Duration idle = worker_.idle_closed() ? first_request_wait : worker_.generation()->settings().timeouts.idle;
  generation_ = GenerationUse();
  idle_ = true;
  IoResult got = co_await io_.socket.read_some(io_.buffer.room(), std::min(idle, rest_after));
  if (got.status == Io::timed_out && idle > rest_after) {
    rest();
    worker_.rests(*this);
    got.status = co_await io_.socket.readable(idle - rest_after);
    if (resting) worker_.wakes(*this);
    io_.buffer.grow(first_buffer_size);
    // With TLS there may be a part of a record only, which is no request yet.
    const Duration header = worker_.generation()->settings().timeouts.header;
    if (got.status == Io::ok) got = co_await io_.socket.read_some(io_.buffer.room(), header);
  }
  idle_ = false;
  co_return got;
}

// While a request waits for another one. A client that closes its side is taken to have left: most have, and one that
// still reads is told that it may ask again. Behind bytes of a next request the end is not seen before the wait is
// over.
bool Client::listen(Presence::Listener& listener) {
  const auto moved = io_.socket.watch(*this);
  if (moved && *moved != http::Socket::Peer::bytes) return false;
  departure_ = &listener;
  return true;
}

void Client::stop_listening() {
  io_.socket.unwatch();
  departure_ = nullptr;
}

void Client::peer_moved(http::Socket::Peer what) {
  if (what != http::Socket::Peer::bytes && departure_ != nullptr) departure_->client_left();
}

std::chrono::nanoseconds Client::debt() const {
  if (displaced_) return {};
  const auto now = worker_.loop().now();
  if (waits_for_client_) return now - began_;
  const Pace& pace = io_.pace;
  if (pace.waiting && !pace.conversation) {
    const std::chrono::nanoseconds a_byte = std::chrono::nanoseconds(std::chrono::seconds(1)) / decent_rate;
    const std::chrono::nanoseconds earned = static_cast<std::chrono::nanoseconds::rep>(pace.bytes) * a_byte;
    return pace.waited + (now - pace.waits_since) - earned;
  }
  return io_.socket.write_debt(decent_rate);
}

// A response that goes out to it is recorded, or has no key; of a request that comes in nothing was executed.
void Client::displace() {
  displaced_ = true;
  io_.socket.reset_on_close();
  io_.socket.cancel();
}

void Client::rest() {
  io_.buffer.release();
  body_.release();
  reply_.release_memory();
  exchange_.release_memory();
  pass_.release_memory();
}

Task<void> Client::refuse_overload(Overload limit) {
  worker_.metrics().overloaded[static_cast<std::size_t>(limit)].add();
  if (limit == Overload::body_memory) make_room();
  co_await write_problem_reply(ProblemKind::overloaded,
                               "The gateway has reached its limit of concurrent requests or of memory for bodies. "
                               "Retry later.",
                               1);
}

Task<void> Client::refuse_caller(CallerTable::Refusal refusal) {
  worker_.metrics().over_limit[static_cast<std::size_t>(refusal.limit)].add();
  const auto address = client_address(io_.head, io_.peer, generation_->settings().trusted_proxies);
  shared_.log.warn("caller over a limit", {{"request", request_id_},
                                           {"limit", name_of(refusal.limit)},
                                           {"client", address ? address->text() : std::string(io_.peer)},
                                           {"trace", http::trace_id(io_.head)}});
  co_await write_problem_reply(ProblemKind::caller_limit, describe(refusal.limit), refusal.retry_after_seconds);
}

std::optional<CallerTable::Refusal> Client::take_key(CallerUse& caller, const std::optional<TenantTag>& address) {
  const Limits& limits = generation_->settings().limits;
  const auto now = worker_.loop().now();
  std::optional<CallerTable::Refusal> refusal;
  if (caller) refusal = caller.take_key(limits.caller, now);
  if (refusal || !address) return refusal;
  refusal = shared_.networks.take_key(*address, limits.address, now);
  if (!refusal) return std::nullopt;
  const bool bytes = refusal->limit == CallerLimit::stored_bytes;
  refusal->limit = bytes ? CallerLimit::address_stored_bytes : CallerLimit::address_new_keys;
  if (caller) caller.give_back_key(limits.caller);
  return refusal;
}

// The limit is for new keys only. Over it, the store is asked whether this key exists.
Task<std::optional<CallerTable::Refusal>> Client::refused_key(CallerUse& caller,
                                                              const std::optional<TenantTag>& address) {
  const auto refusal = take_key(caller, address);
  if (!refusal) co_return std::nullopt;
  Op known;
  known.id = operation_;
  co_await shared_.store.run(known, worker_.loop());
  // A store that does not answer will say so again to the request itself.
  if (known.status != OpStatus::done || known.record) co_return std::nullopt;
  co_return refusal;
}

void Client::count_for(CallerUse& caller, const std::optional<TenantTag>& address, const Policy& policy) {
  const Limits& limits = generation_->settings().limits;
  const auto now = worker_.loop().now();
  const bool known = reply_.ending == Ending::replayed || reply_.ending == Ending::in_flight ||
                     reply_.ending == Ending::mismatch || reply_.attempt > Attempt{1};
  if (caller && known) caller.give_back_key(limits.caller);
  if (caller && reply_.recorded_bytes > 0) caller.stored(limits.caller, reply_.recorded_bytes, policy.ttl, now);
  if (!address) return;
  if (known) shared_.networks.give_back_key(*address, limits.address);
  const bool new_record = !known && reply_.ending != Ending::rejected && reply_.ending != Ending::bypassed;
  const std::size_t bytes = reply_.recorded_bytes + (new_record ? bytes_of_record : 0);
  if (bytes > 0) shared_.networks.stored(*address, limits.address, bytes, policy.ttl, now);
}

}  // namespace once
