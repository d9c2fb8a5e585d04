// What all workers share of a backend and its servers: addresses, health, and counters. All mutable state is atomic;
// nothing here waits.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "gateway/settings.hpp"
#include "gateway/upstream/upstream_ejection.hpp"
#include "http/addresses.hpp"
#include "http/tls_context.hpp"

namespace once::gateway {

// "http://127.0.0.1:9000" or "unix:/run/app.sock": the name in settings, logs and metrics.
std::string server_name(const UpstreamServer& server);
// The server's Host value.
std::string server_authority(const UpstreamServer& server);

// A server is up unless its name was never resolved, health checks fail, or recent requests could not connect. A good
// check clears both failures; a successful connect clears only the second, because a server may accept connections
// without being healthy.
class ServerHealth {
 public:
  using Instant = std::chrono::nanoseconds;  // monotonic

  ServerHealth(const HealthSettings& settings, Duration fail_timeout)
      : settings_(settings), fail_timeout_(fail_timeout) {}

  // The state change, for the log.
  enum class Change : std::uint8_t { none, up, down };

  bool up(Instant now) const {
    return !checked_down_.load(std::memory_order_relaxed) && located() &&
           avoided_until_.load(std::memory_order_relaxed) <= now.count();
  }
  // The displayed state: down until it was reached again, not just until a request may try.
  bool shown_up() const { return !checked_down_.load(std::memory_order_relaxed) && located() && !suspect(); }
  // Whether an address is known: a name that no longer resolves keeps its last one.
  bool located() const { return located_.load(std::memory_order_relaxed); }
  void set_located(bool located) { located_.store(located, std::memory_order_relaxed); }
  // A recent connect failed, and none has succeeded since: do not trust idle connections to it.
  bool suspect() const { return avoided_until_.load(std::memory_order_relaxed) != 0; }
  // The request that picks a suspect server tries it; the others avoid it meanwhile.
  void probe(Instant now);

  // Reports the result of a request's connect.
  Change reached();
  Change not_reached(Instant now);

  // Reports the result of a health check. Called from one thread.
  Change checked(bool good);

 private:
  HealthSettings settings_;
  Duration fail_timeout_;
  std::atomic<bool> checked_down_ = false;
  std::atomic<bool> located_ = true;
  std::atomic<std::uint64_t> failed_ = 0;        // consecutive failed connects
  std::atomic<std::int64_t> avoided_until_ = 0;  // 0: reached since the last failure
  std::size_t bad_checks_ = 0;                   // consecutive ones
  std::size_t good_checks_ = 0;
};

struct ServerState {
  // Without endpoints the server is not located.
  ServerState(const Upstream& upstream, const UpstreamServer& server, http::Endpoints endpoints,
              EjectedServers& ejected);

  const UpstreamServer settings;
  const std::string name;
  const std::string authority;
  http::Addresses addresses;
  ServerHealth health;
  ServerEjection ejection;
  std::atomic<std::uint64_t> connections = 0;
};

// Logs the change, if any.
void log_change(const Log& log, ServerHealth::Change change, const Upstream& upstream, const ServerState& server,
                std::string_view why);

void log_change(const Log& log, ServerEjection::Change change, const Upstream& upstream, const ServerState& server);

struct UpstreamState {
  UpstreamState(const Upstream& of, http::TlsClientContext::Ptr how)
      : settings(of), tls(std::move(how)), ejected(of.servers.size() / 2) {}

  const Upstream settings;
  const http::TlsClientContext::Ptr tls;  // for servers with https; null if there are none
  EjectedServers ejected;
  std::vector<std::unique_ptr<ServerState>> servers;
  std::atomic<std::uint64_t> queued = 0;
  std::atomic<std::uint64_t> queue_refused = 0;
  std::atomic<std::uint64_t> retries = 0;  // requests that were resent to another server
};

// TLS for one loop's connections to the server; null: plain TCP.
std::unique_ptr<http::TlsPeer> tls_peer(const UpstreamState& upstream, const ServerState& server, const Log& log);

// The server's addresses; uses the resolver unless they are literal.
Result<http::Endpoints> locate(const UpstreamServer& server, const http::Resolver& resolver);
// Whether the server is given by name, so that its addresses can change.
bool has_name(const UpstreamServer& server);

}  // namespace once::gateway
