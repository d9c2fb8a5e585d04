#include "store/postgres/listener.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/backoff.hpp"
#include "base/clock.hpp"
#include "store/postgres/poll.hpp"

namespace once::postgres {

namespace {

constexpr Duration first_pause = std::chrono::milliseconds(100);
constexpr Duration longest_pause = std::chrono::seconds(5);
// The duration of one wait, after which the next one begins.
constexpr Duration one_wait = std::chrono::hours(1);

}  // namespace

Listener::Listener(std::string url, const ServerSettings& settings, ServerCounts& counts, const Log& log, Notify notify)
    : url_(std::move(url)),
      settings_(settings),
      counts_(counts),
      log_(log),
      notify_(std::move(notify)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { loop(); }) {
  ONCE_ASSERT(wake_.open());
  pthread_setname_np(thread_.native_handle(), "once-listener");
}

Listener::~Listener() {
  stopping_.store(true, std::memory_order_relaxed);
  const std::uint64_t one = 1;
  ONCE_ASSERT(::write(wake_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

void Listener::loop() {
  Backoff pauses(first_pause, longest_pause);
  while (!stopping()) {
    if (listen() == Listened::yes) pauses.reset();
    if (!stopping()) wait_for(-1, 0, {.until = monotonic_now() + pauses.next(), .wake = wake_.get()});
  }
}

Listener::Listened Listener::listen() {
  auto connection = Connection::open(url_, settings_, Connection::Use::plain, wake_.get());
  if (!connection) {
    if (!stopping())
      log_.warn("no notifications from PostgreSQL; waiting requests poll", {{"error", connection.error().detail}});
    return Listened::not_connected;
  }
  if ((*connection)->pooled()) {
    log_.warn("PostgreSQL is behind a pooler: no notifications from other gateways, waiting requests poll");
    wait_for(-1, 0, {.until = std::chrono::nanoseconds::max(), .wake = wake_.get()});
    return Listened::yes;
  }
  const Wait soon{.until = monotonic_now() + settings_.timeout, .wake = wake_.get()};
  if (!(*connection)->query("LISTEN once_ended", soon)) return Listened::not_connected;
  while (!stopping()) {
    const auto payload = (*connection)->notification({.until = monotonic_now() + one_wait, .wake = wake_.get()});
    if (!payload) return Listened::yes;
    if (*payload) hear(**payload);
  }
  return Listened::yes;
}

void Listener::hear(const std::string& payload) const {
  const auto bytes = from_hex(payload);
  OperationId id;
  if (!bytes || bytes->size() != id.bytes.size()) return;
  std::memcpy(id.bytes.data(), bytes->data(), id.bytes.size());
  counts_.notified.fetch_add(1, std::memory_order_relaxed);
  notify_(id);
}

}  // namespace once::postgres
