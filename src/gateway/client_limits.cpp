// What keeps one client, or all of them together, from taking more of the gateway than they may.
#include <algorithm>

#include "gateway/client.hpp"

namespace once {

using http::Io;
using http::IoResult;

namespace {

// A connection that is used all the time keeps what it needs for the next request.
constexpr Duration rest_after = std::chrono::seconds(1);

std::string describe(CallerLimit limit) {
  switch (limit) {
    case CallerLimit::in_flight: return "This caller has as many requests at work as it may.";
    case CallerLimit::new_keys: return "This caller uses new keys faster than it may.";
    case CallerLimit::stored_bytes: return "As many answers are recorded for this caller as may be.";
  }
  return "";
}

}  // namespace

Task<IoResult> Client::wait_for_request() {
  const Duration idle = worker_.generation()->settings().timeouts.idle;
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

void Client::rest() {
  io_.buffer.release();
  body_.release();
  reply_.release_memory();
  exchange_.release_memory();
  pass_.release_memory();
}

Task<void> Client::refuse_overload(Overload limit) {
  worker_.metrics().overloaded[static_cast<std::size_t>(limit)].add();
  co_await write_problem_reply(ProblemKind::overloaded, "This gateway has as much to do as it may.", 1);
}

Task<void> Client::refuse_caller(CallerTable::Refusal refusal) {
  worker_.metrics().over_limit[static_cast<std::size_t>(refusal.limit)].add();
  co_await write_problem_reply(ProblemKind::caller_limit, describe(refusal.limit), refusal.retry_after_seconds);
}

// Only a new key can be one too many: whether it is, the store knows, and is asked only if it matters.
Task<std::optional<CallerTable::Refusal>> Client::refused_key(CallerUse& caller) {
  const auto refusal = caller.take_key(generation_->settings().limits.caller, worker_.loop().now());
  if (!refusal) co_return std::nullopt;
  Op known;
  known.id = operation_;
  co_await shared_.store.run(known, worker_.loop());
  // A store that does not answer will say so again to the request itself.
  if (known.status != OpStatus::done || known.record) co_return std::nullopt;
  co_return refusal;
}

void Client::count_for(CallerUse& caller, const Policy& policy) {
  const bool known = reply_.ending == Ending::replayed || reply_.ending == Ending::in_flight ||
                     reply_.ending == Ending::mismatch || reply_.attempt > Attempt{1};
  if (known) caller.give_back_key(generation_->settings().limits.caller);
  if (reply_.recorded_bytes > 0) caller.stored(reply_.recorded_bytes, policy.ttl, worker_.loop().now());
}

}  // namespace once
