// The gateway's settings as plain data: upstreams, routes, limits, timeouts. config/ fills them in.
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

// A position in a configuration file. Line 0: not from a file.
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
  std::string socket;  // the path of a Unix socket; empty: use host and port

  bool operator==(const UpstreamServer&) const = default;
};

// How the next server is chosen among those that are up.
enum class Balance : std::uint8_t { round_robin, least_connections };

// The fields that tell a backend the origin of a request.
enum class ForwardedFields : std::uint8_t { x_forwarded, forwarded, both, off };

// When a server counts as down, and as up again. Users set path and interval.
struct HealthSettings {
  std::string path;  // empty: no checks, only failed connects count
  Duration interval = std::chrono::seconds(5);
  Duration timeout = std::chrono::seconds(2);
  std::size_t failures = 3;  // consecutive failures, of checks and of connects alike
  std::size_t successes = 2;
};

// When a server that can be reached, but does not serve well, gets no new requests for a while. Users set failures.
struct EjectSettings {
  std::size_t failures = 0;                  // consecutive 5xx, timeouts and lost connections; 0: never
  Duration time = std::chrono::seconds(10);  // of the first ejection; doubled for each consecutive one
  Duration max_time = std::chrono::minutes(5);
};

// When a GET, HEAD or OPTIONS without a key and a body is resent to a second server, if the client has seen nothing of
// a response.
enum class RetrySafe : std::uint8_t {
  off,
  lost,         // the connection was lost before the first byte of a response
  unavailable,  // also if the first server answered 502, 503 or 504
};

// A backend: one server or several that do the same.
struct Upstream {
  static constexpr std::string_view keep_host = "keep";
  static constexpr std::string_view own_host = "upstream";

  std::string name;
  std::vector<UpstreamServer> servers;
  std::string base_path;  // prepended to the request's path; "" or "/base", never with a trailing slash
  Balance balance = Balance::round_robin;
  std::size_t max_connections = 0;  // to each server, in the whole process; 0: any number
  std::size_t queue = 100;          // requests that may wait for one, in the whole process
  HealthSettings health;
  EjectSettings eject;
  RetrySafe retry_safe = RetrySafe::off;
  Duration fail_timeout = std::chrono::seconds(10);   // how long a server that could not be reached is avoided
  Duration resolve_every = std::chrono::seconds(30);  // how often its name is resolved
  std::string host = std::string(keep_host);          // which Host it gets: keep_host, own_host, or this one
  ForwardedFields forwarded = ForwardedFields::x_forwarded;
  bool via = true;  // add a Via field to requests
  Where where;
};

// Whether any upstream needs TLS.
inline bool has_https(const std::vector<Upstream>& upstreams) {
  return std::ranges::any_of(upstreams, [](const Upstream& upstream) {
    return std::ranges::find(upstream.servers, UpstreamServer::Scheme::https, &UpstreamServer::scheme) !=
           upstream.servers.end();
  });
}

struct Route {
  std::string path = "/**";          // literal segments, * or {name} for one, ** at the end for any rest
  std::vector<std::string> hosts;    // names, or *.NAME for subdomains; empty: any
  std::optional<MethodSet> methods;  // the methods that this route matches; absent: all
  std::string upstream;              // a name in Config::upstreams; prepare() fills in the first by default
  std::string strip_prefix;          // removed from the path before it goes to the backend; "" or "/api"
  Policy policy;
  Where where;
};

// Limits of one caller, or one address, at this gateway. 0: unlimited.
struct CallerLimits {
  std::size_t in_flight = 0;       // requests with a key in progress at one time
  std::size_t new_keys = 0;        // a second
  std::size_t new_keys_burst = 0;  // at once; 0: twice new_keys. Only tests set it
  std::size_t stored_bytes = 0;    // of answers that have not expired
  std::size_t tracked = 100'000;   // callers that are tracked. Only tests set it

  bool any() const { return in_flight != 0 || new_keys != 0 || stored_bytes != 0; }
};

struct Limits {
  std::size_t max_connections = 10'000;                   // client connections of the whole process
  std::size_t max_connections_per_address = 0;            // 0: unlimited
  std::size_t max_in_flight = 20'000;                     // keyed requests in progress in the whole process
  std::size_t max_body_memory = std::size_t{256} << 20U;  // bodies in memory, in the whole process
  std::size_t max_spool = std::size_t{4} << 30U;          // larger bodies on disk, in the whole process
  std::string spool_directory;                            // the directory of those
  std::size_t min_rate = 100;  // least bytes a second for a client to send or read a message; 0: no limit
  std::size_t max_header_bytes = std::size_t{32} << 10U;
  std::size_t max_header_count = 100;                 // no setting
  std::size_t max_uri_bytes = std::size_t{8} << 10U;  // a quarter of max_header_bytes
  CallerLimits caller;
  CallerLimits address;  // for all unproven callers of one address together; only new keys and stored bytes
};

// Timeouts of client connections; those of backends are in Policy::timeouts.
struct ClientTimeouts {
  Duration header = std::chrono::seconds(10);     // from the first byte of a request to the end of its head
  Duration body_idle = std::chrono::seconds(30);  // silence during a request body or a response
  Duration idle = std::chrono::seconds(75);       // between requests
  // After SIGTERM: how long requests in progress may take. Longer than connecting, responding and recording together.
  Duration drain = std::chrono::seconds(70);
  // Before that: how long /readyz returns 503 while everything is still served.
  Duration drain_delay{};
  // After SIGUSR2: how long each step of the handover may take. Half of `drain`, at least 30 s.
  Duration handover = std::chrono::seconds(30);
};

// Idle connections kept open to backends.
struct PoolSettings {
  Duration idle_max = std::chrono::seconds(4);        // shorter than what servers commonly allow (5 s and more)
  Duration keyed_idle_max = std::chrono::seconds(1);  // keyed requests use no older one; a quarter of idle_max
};

// Where requests carry tokens, and how they are verified.
struct TokenSettings {
  std::string header = "Authorization";         // in Authorization after the scheme Bearer, in any other header alone
  std::shared_ptr<const JwtVerifier> verifier;  // null: no route uses tokens
};

// Listeners behind TCP load balancers, which send the client's address in a PROXY protocol header first.
struct ProxyProtocolSettings {
  bool plain = false;     // on connections to `listen`
  bool tls = false;       // on connections to `tls.listen`
  http::AddressSet from;  // trusted peers; other connections are refused on those listeners
};

// The settings of serving that a reload can change. Addresses and the store are not among them.
struct ServingSettings {
  std::vector<Upstream> upstreams;  // the first is the default
  std::vector<Route> routes;
  Limits limits;
  ClientTimeouts timeouts;
  PoolSettings pool;
  TokenSettings tokens;
  bool access_log = false;
  http::AddressSet trusted_proxies;  // whose X-Forwarded-For is believed
  ProxyProtocolSettings proxy_protocol;
  HostNames hosts;                       // host names that are equivalent
  std::vector<std::string> upgrades;     // protocols that a client may upgrade to
  http::TlsServerSettings tls;           // a reload does not change the address
  http::TlsClientSettings upstream_tls;  // for upstreams with https
};

}  // namespace once::gateway
