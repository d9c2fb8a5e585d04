// What the gateway needs to be told, as plain data: upstreams, routes, limits, time limits. config/ fills it in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "core/jwt.hpp"
#include "core/policy.hpp"
#include "gateway/identity/host.hpp"
#include "http/address_set.hpp"
#include "http/tls_settings.hpp"

namespace once::gateway {

// Where in the file something was said. Line 0: not from a file.
struct Where {
  std::string file;
  int line = 0;
  int column = 0;
};

// One server of a backend: http://HOST[:PORT], https://HOST[:PORT] or unix:/path/to.sock.
struct UpstreamServer {
  enum class Scheme : std::uint8_t { http, https };

  Scheme scheme = Scheme::http;
  std::string host;  // IPv6 without brackets; empty for a Unix socket
  std::uint16_t port = 80;
  std::string socket;  // the path of a Unix socket; empty: host and port count

  bool operator==(const UpstreamServer&) const = default;
};

// Which of the servers that are up gets the next request.
enum class Balance : std::uint8_t { round_robin, least_connections };

// What backends are told of where a request came from.
enum class ForwardedFields : std::uint8_t { x_forwarded, forwarded, both, off };

// When a server counts as down, and as up again. Users set path and interval.
struct HealthSettings {
  std::string path;  // empty: nobody asks, only what happens to requests counts
  Duration interval = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(2);
  std::size_t failures = 3;  // in a row, of checks and of connects alike
  std::size_t successes = 2;
};

// When a server that can be reached, but does not serve well, gets no new requests for a while. Users set failures.
struct EjectSettings {
  std::size_t failures = 0;                  // in a row: 5xx, timeouts, lost connections; 0: never
  Duration time = std::chrono::seconds(10);  // the first time; twice as long each time in a row
  Duration max_time = std::chrono::minutes(5);
};

// When a GET, HEAD or OPTIONS without a key and without a body is sent to a second server, if nothing of an answer has
// gone to the client.
enum class RetrySafe : std::uint8_t {
  off,
  lost,         // the connection was lost before the first byte of an answer
  unavailable,  // or the first server answered 502, 503 or 504
};

// A backend: one server or several that do the same.
struct Upstream {
  static constexpr std::string_view keep_host = "keep";
  static constexpr std::string_view own_host = "upstream";

  std::string name;
  std::vector<UpstreamServer> servers;
  std::string base_path;  // put before the request's path; "" or "/base", never with a trailing slash
  Balance balance = Balance::round_robin;
  std::size_t max_connections = 0;  // to each server, in the whole process; 0: any number
  std::size_t queue = 100;          // requests that may wait for one, in the whole process
  HealthSettings health;
  EjectSettings eject;
  RetrySafe retry_safe = RetrySafe::off;
  Duration fail_timeout = std::chrono::seconds(10);   // how long a server that could not be reached is avoided
  Duration resolve_every = std::chrono::seconds(30);  // how often its name is looked up
  std::string host = std::string(keep_host);          // which Host it gets: keep_host, own_host, or this one
  ForwardedFields forwarded = ForwardedFields::x_forwarded;
  bool via = true;  // requests say that they came through Once
  Where where;
};

// Whether anything must be known of TLS to reach them.
inline bool has_https(const std::vector<Upstream>& upstreams) {
  return std::ranges::any_of(upstreams, [](const Upstream& upstream) {
    return std::ranges::find(upstream.servers, UpstreamServer::Scheme::https, &UpstreamServer::scheme) !=
           upstream.servers.end();
  });
}

struct Route {
  std::string path = "/**";          // literal segments, * or {name} for one, ** at the end for any rest
  std::vector<std::string> hosts;    // names, or *.NAME for those below one; empty: any
  std::optional<MethodSet> methods;  // which methods this route matches; absent: all
  std::string upstream;              // a name in Config::upstreams; prepare() fills in the first
  std::string strip_prefix;          // taken off the path before it goes to the backend; "" or "/api"
  Policy policy;
  Where where;
};

// Of one caller, or one address, at this gateway. 0: no limit.
struct CallerLimits {
  std::size_t in_flight = 0;       // requests with a key at work at one time
  std::size_t new_keys = 0;        // a second
  std::size_t new_keys_burst = 0;  // at once; 0: twice new_keys. Only tests set it
  std::size_t stored_bytes = 0;    // of answers that have not expired
  std::size_t tracked = 100'000;   // callers that are kept count of. Only tests set it

  bool any() const { return in_flight != 0 || new_keys != 0 || stored_bytes != 0; }
};

struct Limits {
  std::size_t max_connections = 10'000;                   // from clients, in the whole process
  std::size_t max_connections_per_address = 0;            // 0: no limit
  std::size_t max_in_flight = 20'000;                     // requests with a key at work, in the whole process
  std::size_t max_body_memory = std::size_t{256} << 20U;  // their bodies, in the whole process
  std::size_t max_spool = std::size_t{4} << 30U;          // on disk, larger bodies, in the whole process
  std::string spool_directory;                            // where those are
  std::size_t min_rate = 100;  // bytes a second, of a client that sends or takes a message; 0: no limit
  std::size_t max_header_bytes = std::size_t{32} << 10U;
  std::size_t max_header_count = 100;                 // no setting
  std::size_t max_uri_bytes = std::size_t{8} << 10U;  // by max_header_bytes
  CallerLimits caller;
  CallerLimits address;  // of all callers from there together that are not proven; new keys and stored bytes only
};

// Of connections from clients; those of backends are in Policy::timeouts.
struct ClientTimeouts {
  Duration header = std::chrono::seconds(10);     // from the first byte of a request to the end of its header
  Duration body_idle = std::chrono::seconds(30);  // silence while a request body or a response is on its way
  Duration idle = std::chrono::seconds(75);       // between requests
  // After SIGTERM: how long running requests may take to end. Longer than connecting, responding and recording.
  Duration drain = std::chrono::seconds(70);
  // Before that: how long /readyz says 503 while everything is served as before.
  Duration drain_delay{};
  // After SIGUSR2: how long each step of the handover may take. By `drain`.
  Duration handover = std::chrono::seconds(30);
};

// Connections kept open to backends.
struct PoolSettings {
  Duration idle_max = std::chrono::seconds(4);        // shorter than what servers commonly allow (5 s and more)
  Duration keyed_idle_max = std::chrono::seconds(1);  // keyed requests take no older one; by idle_max
};

// Where tokens are, and what checks them.
struct TokenSettings {
  std::string header = "Authorization";         // there behind the scheme Bearer, in any other the token alone
  std::shared_ptr<const JwtVerifier> verifier;  // null: no route reads tokens
};

// Where load balancers that only pass bytes on say whose connection it is, before anything else.
struct ProxyProtocolSettings {
  bool plain = false;     // on connections to `listen`
  bool tls = false;       // on connections to `tls.listen`
  http::AddressSet from;  // whose word counts; connections of others are refused there
};

// What a reload can change: everything that says how requests are served, and nothing of where and with which store.
struct ServingSettings {
  std::vector<Upstream> upstreams;  // the first is the default one
  std::vector<Route> routes;
  Limits limits;
  ClientTimeouts timeouts;
  PoolSettings pool;
  TokenSettings tokens;
  bool access_log = false;
  http::AddressSet trusted_proxies;  // whose X-Forwarded-For is believed
  ProxyProtocolSettings proxy_protocol;
  HostNames hosts;                       // which of them are the same
  std::vector<std::string> upgrades;     // protocols that a client may switch to
  http::TlsServerSettings tls;           // where it listens stays as it was
  http::TlsClientSettings upstream_tls;  // of upstreams with https
};

}  // namespace once::gateway
