#include "gateway/upstream/upstream_state.hpp"

#include <algorithm>
#include <utility>

namespace once::gateway {

namespace {

std::string in_brackets(const std::string& host) {
  return host.contains(':') ? "[" + host + "]" : host;
}

}  // namespace

std::string server_name(const UpstreamServer& server) {
  if (!server.socket.empty()) return "unix:" + server.socket;
  const std::string scheme = server.scheme == UpstreamServer::Scheme::https ? "https://" : "http://";
  return scheme + server_authority(server);
}

std::string server_authority(const UpstreamServer& server) {
  if (!server.socket.empty()) return "localhost";
  return in_brackets(server.host) + ":" + std::to_string(server.port);
}

void ServerHealth::probe(Instant now) {
  std::int64_t until = avoided_until_.load(std::memory_order_relaxed);
  if (until == 0 || until > now.count()) return;
  avoided_until_.compare_exchange_strong(until, (now + fail_timeout_).count(), std::memory_order_relaxed);
}

ServerHealth::Change ServerHealth::reached() {
  if (failed_.load(std::memory_order_relaxed) != 0) failed_.store(0, std::memory_order_relaxed);
  if (!suspect()) return Change::none;
  return avoided_until_.exchange(0, std::memory_order_relaxed) == 0 ? Change::none : Change::up;
}

ServerHealth::Change ServerHealth::not_reached(Instant now) {
  if (failed_.fetch_add(1, std::memory_order_relaxed) + 1 < settings_.failures) return Change::none;
  const std::int64_t before = avoided_until_.exchange((now + fail_timeout_).count(), std::memory_order_relaxed);
  return before == 0 ? Change::down : Change::none;
}

ServerHealth::Change ServerHealth::checked(bool good) {
  bad_checks_ = good ? 0 : bad_checks_ + 1;
  good_checks_ = good ? good_checks_ + 1 : 0;
  const bool down = checked_down_.load(std::memory_order_relaxed);
  if (good_checks_ >= settings_.successes) {
    checked_down_.store(false, std::memory_order_relaxed);
    const bool was_suspect = reached() == Change::up;
    return down || was_suspect ? Change::up : Change::none;
  }
  if (!down && bad_checks_ >= settings_.failures) {
    checked_down_.store(true, std::memory_order_relaxed);
    return Change::down;
  }
  return Change::none;
}

ServerState::ServerState(const Upstream& upstream, const UpstreamServer& server, http::Endpoints endpoints,
                         EjectedServers& ejected)
    : settings(server),
      name(server_name(server)),
      authority(server_authority(server)),
      addresses(std::move(endpoints)),
      health(upstream.health, upstream.fail_timeout),
      ejection(upstream.eject, ejected) {
  health.set_located(!addresses.current()->empty());
}

void log_change(const Log& log, ServerHealth::Change change, const Upstream& upstream, const ServerState& server,
                std::string_view why) {
  switch (change) {
    case ServerHealth::Change::none: break;
    case ServerHealth::Change::up:
      log.info("server is up again", {{"upstream", upstream.name}, {"server", server.name}, {"reason", why}});
      break;
    case ServerHealth::Change::down:
      log.warn("server is down", {{"upstream", upstream.name}, {"server", server.name}, {"reason", why}});
      break;
  }
}

void log_change(const Log& log, ServerEjection::Change change, const Upstream& upstream, const ServerState& server) {
  switch (change) {
    case ServerEjection::Change::none: break;
    case ServerEjection::Change::ejected:
      log.warn("server is ejected", {{"upstream", upstream.name}, {"server", server.name}});
      break;
    case ServerEjection::Change::readmitted:
      log.info("server is readmitted", {{"upstream", upstream.name}, {"server", server.name}});
      break;
  }
}

bool has_name(const UpstreamServer& server) {
  return server.socket.empty() && !http::is_numeric(server.host);
}

std::unique_ptr<http::TlsPeer> tls_peer(const UpstreamState& upstream, const ServerState& server, const Log& log) {
  if (server.settings.scheme != UpstreamServer::Scheme::https) return nullptr;
  return std::make_unique<http::TlsPeer>(upstream.tls, server.settings.host, log);
}

Result<http::Endpoints> locate(const UpstreamServer& server, const http::Resolver& resolver) {
  if (server.socket.empty()) return resolver(server.host, std::to_string(server.port));
  auto endpoint = http::unix_endpoint(server.socket);
  if (!endpoint) return std::unexpected(endpoint.error());
  return http::Endpoints{*endpoint};
}

}  // namespace once::gateway
