#include "config/prepare.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/check_routes.hpp"
#include "config/codec.hpp"
#include "config/findings.hpp"
#include "config/secret.hpp"
#include "core/host.hpp"
#include "gateway/upstream/upstream_state.hpp"
#include "http/endpoint.hpp"
#include "store/catalog/catalog.hpp"

namespace once::config {

namespace {

void check_proxy_protocol(const Config& config, Findings& out) {
  const bool spoken = config.proxy_protocol_listen || config.proxy_protocol_tls;
  if (spoken && config.proxy_protocol_from.empty()) {
    out.error({"proxy_protocol.listen", "proxy_protocol.tls", "proxy_protocol.from"},
              "proxy_protocol needs proxy_protocol.from: list the load balancers that send the header, because its "
              "sender can claim any client address");
  }
  if (!spoken && !config.proxy_protocol_from.empty()) {
    out.warning({"proxy_protocol.from", "proxy_protocol.listen", "proxy_protocol.tls"},
                "proxy_protocol.from has no effect without proxy_protocol.listen or proxy_protocol.tls");
  }
}

// Warns about settings that have no effect in combination with others.
void check_idle_settings(const Config& config, Findings& out) {
  if (config.proxy_protocol_tls && config.tls.listen == "off") {
    out.warning({"proxy_protocol.tls", "tls.listen"}, "proxy_protocol.tls has no effect without tls.listen");
  }
  if (!config.tls.client_ca.empty() && config.tls.listen == "off") {
    out.warning({"tls.client_ca", "tls.listen"},
                "tls.client_ca has no effect without tls.listen: clients are not asked for a certificate");
  }
  if (!config.log.access_file.empty() && !config.log.access) {
    out.warning({"log.access_file", "log.access"}, "log.access_file has no effect without log.access: on");
  }
  const StoreType* const store = find_store(config.store);
  if (config.server.wait_replicas > 0 && (store == nullptr || !store->takes("redis"))) {
    out.warning({"redis.wait_replicas", "store"}, "redis.wait_replicas has no effect: the store is not Redis");
  }
}

void check_upstreams(const Config& config, Findings& out) {
  for (const Upstream& upstream : config.upstreams) {
    const auto name = [&](std::string_view setting) { return fmt::format("upstreams.{}.{}", upstream.name, setting); };
    if (upstream.max_connections != 0 && upstream.max_connections < config.threads) {
      out.warning({name("max_connections"), "threads"},
                  fmt::format("{} ({}) is less than threads ({}): each thread still gets one connection",
                              name("max_connections"), upstream.max_connections, config.threads));
    }
    if (upstream.servers.size() != 1) continue;
    if (upstream.eject.failures != 0) {
      out.warning({name("eject.failures"), name("servers")},
                  fmt::format("{} has no effect: the upstream has one server", name("eject.failures")));
    }
    if (upstream.retry_safe != RetrySafe::off) {
      out.warning({name("retry.safe"), name("servers")},
                  fmt::format("{} has no effect: the upstream has one server", name("retry.safe")));
    }
  }
}

void check_claims(const Config& config, Findings& out) {
  const ClaimsSettings& claims = config.claims;
  if (claims.listen == "off") return;
  const auto address = parse_address(claims.listen);
  if (address && claims.tokens.empty()) {
    out.error(
        {"claims.listen", "claims.tokens"},
        fmt::format("claims.listen is {}: any client that can connect could end the work of others, so claims.tokens "
                    "is required, even on loopback; without tokens use unix:/path/to.sock",
                    claims.listen));
  }
  if (address && address->port != 0 && (claims.listen == config.listen || claims.listen == config.admin)) {
    out.error({"claims.listen", "listen", "admin"},
              fmt::format("claims.listen is {}, which is already used by another listener", claims.listen));
  }
}

bool names_loopback(const Address& address) {
  if (address.host == "localhost") return true;
  return http::is_numeric(address.host) && (address.host.starts_with("127.") || address.host == "::1");
}

void check_admin(const Config& config, Findings& out) {
  const auto address = parse_address(config.admin);
  if (!address || !config.admin_token.empty()) return;
  if (names_loopback(*address)) {
    if (config.environment != Environment::production) return;
    out.error({"environment", "admin", "admin_token"},
              fmt::format("environment is production and admin is {}: every user of this machine would have full "
                          "access, so admin_token is required, such as admin_token: file:/etc/once/admin-token; "
                          "without one use admin: off",
                          config.admin));
    return;
  }
  out.error({"admin", "admin_token"},
            fmt::format("admin is {}: other machines would have full access, so admin_token is required, such as "
                        "admin_token: file:/etc/once/admin-token; without one use 127.0.0.1",
                        config.admin));
}

void check_tls(const Config& config, Findings& out) {
  const http::TlsServerSettings& tls = config.tls;
  if (tls.listen == "off") {
    if (config.listen == "off")
      out.error({"listen", "tls.listen"}, "listen and tls.listen are both off: clients cannot connect");
    return;
  }
  if (tls.certificates.empty()) {
    out.error({"tls.listen", "tls.certificates"},
              fmt::format("tls.listen is {}: tls.certificates is empty; add a certificate", tls.listen));
  }
  if (!tls.client_crl.empty() && tls.client_ca.empty()) {
    out.error({"tls.client_crl", "tls.client_ca"},
              "tls.client_crl needs tls.client_ca: without it clients are not asked for certificates");
  }
  const auto address = parse_address(tls.listen);
  const bool twice = tls.listen == config.listen || tls.listen == config.admin || tls.listen == config.claims.listen;
  if (address && address->port != 0 && twice) {
    out.error({"tls.listen", "listen", "admin", "claims.listen"},
              fmt::format("tls.listen is {}, which is already used by another listener", tls.listen));
  }
}

// Whether a connection to `host` reaches a listener on `listens`, judged by names only.
bool reaches(std::string_view host, std::string_view listens) {
  const auto is_loopback = [](std::string_view each) {
    return iequals(each, "localhost") || each == "::1" || each.starts_with("127.");
  };
  if (iequals(host, listens)) return true;
  const bool by_name = iequals(host, "localhost") || iequals(listens, "localhost");
  const bool everywhere = listens == "0.0.0.0" || listens == "::";
  return is_loopback(host) && (everywhere || (by_name && is_loopback(listens)));
}

// A gateway must not be its own backend: requests would loop until a limit ends them.
void check_loops(const Config& config, Findings& out) {
  for (const Upstream& upstream : config.upstreams) {
    for (const UpstreamServer& server : upstream.servers) {
      for (const auto& [name, text] :
           {std::pair("listen", config.listen), std::pair("tls.listen", config.tls.listen)}) {
        const auto listens = parse_address(text);
        if (!listens || listens->port == 0 || listens->port != server.port) continue;
        if (!reaches(server.host, listens->host)) continue;
        out.error({fmt::format("upstreams.{}", upstream.name), name},
                  fmt::format("upstreams.{}: {} is this gateway's own address ({}: {}); requests would loop. Give the "
                              "address of the backend",
                              upstream.name, server_authority(server), name, text));
      }
    }
  }
}

// Requests in a tunnel that carries HTTP (or TLS with HTTP in it) would bypass every route.
void check_upgrades(const Config& config, Findings& out) {
  for (const std::string& protocol : config.upgrades) {
    if (!iequals(protocol, "h2c") && !iequals(protocol, "HTTP") && !iequals(protocol, "TLS")) continue;
    out.error({"upgrades"}, fmt::format("upgrades: {} is not allowed: its requests would bypass Once", protocol));
  }
}

void check_hosts(const Config& config, Findings& out) {
  const std::vector<std::string>& groups = config.same_hosts;
  if (groups.size() > 1 && std::ranges::find(groups, HostNames::every_host) != groups.end()) {
    out.error({"same_hosts"}, "same_hosts: * means every host and cannot be combined with others");
    return;
  }
  std::vector<std::string> seen;
  for (const std::string& group : groups) {
    for (const std::string_view name : split(group, ' ')) {
      std::string scratch;
      const std::string_view normal = normalise_host(name, scratch);
      if (std::ranges::find(seen, normal) != seen.end()) {
        out.error({"same_hosts"}, fmt::format("same_hosts: {} is listed twice", normal));
      }
      seen.emplace_back(normal);
    }
  }
}

void check_process(const Config& config, Findings& out) {
  if (config.upstreams.empty()) {
    out.error({"upstreams"},
              "no upstream: give one with --upstream http://HOST:PORT or with upstreams: in the configuration file");
  }
  const auto listen = parse_address(config.listen);
  if (config.listen == config.admin && listen && listen->port != 0) {
    out.error({"admin", "listen"}, fmt::format("listen and admin are both {}", config.listen));
  }
  const journal::JournalSettings& journal = config.journal;
  if (journal.cache_bytes >= journal.max_memory) {
    out.error({"journal.cache", "journal.max_memory"},
              fmt::format("journal.cache ({}) must be smaller than journal.max_memory ({})",
                          format_size(journal.cache_bytes), format_size(journal.max_memory)));
  }
  check_upstreams(config, out);
  check_loops(config, out);
  check_idle_settings(config, out);
  check_hosts(config, out);
  check_upgrades(config, out);
  check_admin(config, out);
  check_claims(config, out);
  check_tls(config, out);
  check_proxy_protocol(config, out);
  const StoreType* const store = find_store(config.store);
  if (config.environment == Environment::production && store != nullptr && store->durable == Durable::no) {
    out.warning({"store"}, fmt::format("store: {} loses every record when the process ends", config.store));
  }
}

}  // namespace

Checked check(Config& config) {
  Findings out(config);
  check_process(config, out);
  if (config.routes.empty()) {
    Route everything;
    everything.policy = config.defaults;
    everything.where = config.defaults_where;
    config.routes.push_back(std::move(everything));
  }
  check_routes(config, out);
  return out.take();
}

Checked check_all(Config& config, const Environ& environ) {
  Checked all = check(config);
  for (Checked part : {read_files(config), check_spool(config, environ), check_secrets(config, environ)}) {
    std::ranges::move(part.errors, std::back_inserter(all.errors));
    std::ranges::move(part.warnings, std::back_inserter(all.warnings));
  }
  return all;
}

ConfigErrors all_mistakes(Loaded loaded, const Environ& environ) {
  if (loaded.complete) {
    std::ranges::move(check_all(loaded.config, environ).errors, std::back_inserter(loaded.errors));
  }
  std::ranges::sort(loaded.errors, {}, [](const ConfigError& e) { return std::tie(e.file, e.line, e.column, e.text); });
  return std::move(loaded.errors);
}

std::expected<ConfigErrors, ConfigErrors> prepare(Config& config, const Environ& environ, Random& random) {
  Checked checked = check_all(config, environ);
  // Do not create a secret for a process that will not start.
  if (!checked.errors.empty()) return std::unexpected(std::move(checked.errors));
  if (config.secret.empty()) {  // read only once: it may be a pipe
    auto secret = find_secret(config, environ, random);
    if (!secret) return std::unexpected(ConfigErrors{{"", 0, 0, std::move(secret.error())}});
    config.secret = std::move(secret->bytes);
  }
  return std::move(checked.warnings);
}

}  // namespace once::config
