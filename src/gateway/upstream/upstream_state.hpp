// What all workers know together of a backend and its servers: where they are, whether they are up, and what is
// counted. Everything that is written is an atomic; nothing here waits.
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

// "http://127.0.0.1:9000" or "unix:/run/app.sock": as it is written in settings, logs and metrics.
std::string server_name(const UpstreamServer& server);
// What such a server is called in Host.
std::string server_authority(const UpstreamServer& server);

// Up unless its name was never found, the checks say otherwise, or requests could not reach it lately. Checks that pass
// end both; a request that reaches it ends only the second, for a server may well take connections and not be fit to
// serve.
class ServerHealth {
 public:
  using Instant = std::chrono::nanoseconds;  // monotonic

  ServerHealth(const HealthSettings& settings, Duration fail_timeout)
      : settings_(settings), fail_timeout_(fail_timeout) {}

  // What came of it, for the log.
  enum class Change : std::uint8_t { none, up, down };

  bool up(Instant now) const {
    return !checked_down_.load(std::memory_order_relaxed) && located() &&
           avoided_until_.load(std::memory_order_relaxed) <= now.count();
  }
  // As it is shown: until it was reached again, not until somebody may try.
  bool shown_up() const { return !checked_down_.load(std::memory_order_relaxed) && located() && !suspect(); }
  // It has an address, or had one: a name that cannot be looked up any more stays where it was.
  bool located() const { return located_.load(std::memory_order_relaxed); }
  void set_located(bool located) { located_.store(located, std::memory_order_relaxed); }
  // It could not be reached lately and has not been since: a connection that rested there proves nothing.
  bool suspect() const { return avoided_until_.load(std::memory_order_relaxed) != 0; }
  // Whoever picks a suspect is the one to try it; the others avoid it meanwhile.
  void probe(Instant now);

  // What happened to a request's connect.
  Change reached();
  Change not_reached(Instant now);

  // What a check said. From one thread.
  Change checked(bool good);

 private:
  HealthSettings settings_;
  Duration fail_timeout_;
  std::atomic<bool> checked_down_ = false;
  std::atomic<bool> located_ = true;
  std::atomic<std::uint64_t> failed_ = 0;        // connects in a row
  std::atomic<std::int64_t> avoided_until_ = 0;  // 0: not avoided since it was last reached
  std::size_t bad_checks_ = 0;                   // in a row
  std::size_t good_checks_ = 0;
};

struct ServerState {
  // Without endpoints it is not located.
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

// Writes what changed to the log.
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
  std::atomic<std::uint64_t> retries = 0;  // requests that were sent to a second server
};

// For one loop's connections to the server; null: they are plain.
std::unique_ptr<http::TlsPeer> tls_peer(const UpstreamState& upstream, const ServerState& server, const Log& log);

// Addresses of the server, from the resolver unless it needs none.
Result<http::Endpoints> locate(const UpstreamServer& server, const http::Resolver& resolver);
// Whether its addresses can change.
bool has_name(const UpstreamServer& server);

}  // namespace once::gateway
