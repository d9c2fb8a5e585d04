#include "config/finish.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>

#include "base/text.hpp"
#include "config/codec.hpp"
#include "config/jwt_keys.hpp"
#include "config/secret.hpp"
#include "core/headers.hpp"
#include "core/host.hpp"
#include "gateway/scope.hpp"
#include "http/endpoint.hpp"
#include "http/tls_context.hpp"
#include "store/server/store_url.hpp"

namespace once {

namespace {

ConfigError at(const Where& where, std::string text) {
  return {where.file, where.line, where.column, std::move(text)};
}

bool is_proven(const CallerSource& source) {
  return source.kind == CallerSource::Kind::jwt || source.kind == CallerSource::Kind::mtls_subject;
}

// A name that anybody can put into a request, and not something that only its owner has.
bool is_unproven_name(const CallerSource& source) {
  if (source.kind != CallerSource::Kind::header) return false;
  std::string name = source.name;
  std::ranges::transform(name, name.begin(), [](char c) { return to_lower(c); });
  return std::ranges::none_of(std::array{"authorization", "cookie", "token", "secret", "api-key", "apikey", "api_key"},
                              [&](std::string_view credential) { return name.contains(credential); });
}

void check_callers(const Config& config, const Policy& policy, const Where& where, Checked& out) {
  const auto error = [&](std::string text) { out.errors.push_back(at(where, std::move(text))); };
  const auto warning = [&](std::string text) { out.warnings.push_back(at(where, std::move(text))); };
  const auto name_of = caller_codec().format;
  const bool in_scope = std::ranges::find(policy.scope, ScopePart::caller) != policy.scope.end();
  if (policy.caller.empty() && in_scope) {
    warning("caller is none: callers that use the same key are given each other's answers");
  }
  if (policy.caller.size() > max_caller_sources) {
    error(fmt::format("caller: at most {} sources, got {}", max_caller_sources, policy.caller.size()));
  }
  if (policy.scope_headers.size() > max_scope_headers) {
    error(fmt::format("scope_headers: at most {}, got {}", max_scope_headers, policy.scope_headers.size()));
  }
  const bool has_keys = !config.jwt.keys.empty() || !config.jwt.secrets.empty();
  for (const CallerSource& source : policy.caller) {
    if (source.kind != CallerSource::Kind::jwt || has_keys) continue;
    error(fmt::format("caller: {} needs a key to check tokens with: jwt.keys or jwt.secrets", name_of(source)));
  }
  const bool asks_for_certificates = config.tls.listen != "off" && !config.tls.client_ca.empty();
  for (const CallerSource& source : policy.caller) {
    if (source.kind != CallerSource::Kind::mtls_subject || asks_for_certificates) continue;
    error(
        fmt::format("caller: {} needs clients that show a certificate: tls.listen and tls.client_ca", name_of(source)));
  }
  for (const CallerSource& source : policy.caller) {
    if (!in_scope || source.kind != CallerSource::Kind::proxy_header || !config.trusted_proxies.empty()) continue;
    error(fmt::format("caller: {} needs trusted_proxies, to name the proxy that sets this header", name_of(source)));
  }
  if (in_scope && !policy.caller.empty() && std::ranges::all_of(policy.caller, is_unproven_name)) {
    warning(
        fmt::format("caller: {}: clients can set this header themselves and be given the answers of others; if a "
                    "proxy sets it, say proxy-header:{} and trusted_proxies",
                    name_of(policy.caller.front()), policy.caller.front().name));
  }
  const auto proven = std::ranges::find_if(policy.caller, is_proven);
  if (in_scope && proven != policy.caller.end() && policy.caller_missing == CallerMissing::anonymous) {
    warning(
        fmt::format("caller: {} with caller_missing: anonymous: requests without one that use the same key are given "
                    "each other's answers; caller_missing: reject refuses them",
                    name_of(*proven)));
  }
  if (!in_scope && policy.caller_missing == CallerMissing::reject) {
    warning("caller_missing: reject does nothing: the caller is not part of scope");
  }
}

void check_policy(const Policy& policy, const Where& where, Checked& out) {
  const auto error = [&](std::string text) { out.errors.push_back(at(where, std::move(text))); };
  const auto warning = [&](std::string text) { out.warnings.push_back(at(where, std::move(text))); };
  if (policy.lease >= policy.ttl) {
    error(fmt::format("lease ({}) must be shorter than ttl ({})", format_duration(policy.lease),
                      format_duration(policy.ttl)));
  }
  const bool json = policy.fingerprint.body == FingerprintPolicy::Body::json;
  if (!json && !policy.fingerprint.include.empty()) error("fingerprint.include needs fingerprint.body: json");
  if (!json && !policy.fingerprint.exclude.empty()) error("fingerprint.exclude needs fingerprint.body: json");
  if (policy.on_unknown == OnUnknown::takeover && policy.takeover_after >= policy.ttl) {
    warning(fmt::format("takeover_after ({}) is not shorter than ttl ({}): the key expires before anyone takes over",
                        format_duration(policy.takeover_after), format_duration(policy.ttl)));
  }
  const bool everybody = std::ranges::find(policy.cors.origins, "*") != policy.cors.origins.end();
  if (everybody && policy.cors.origins.size() > 1) error("cors.origins: * is everybody, and stands alone");
  if (everybody && policy.cors.credentials) {
    error("cors.credentials needs cors.origins by name: with * every page could act as its visitor");
  }
  if (policy.cors.credentials && policy.cors.origins.empty()) error("cors.credentials needs cors.origins");
  if ((policy.record.statuses & ~policy.record.refusals).none()) {
    warning("no status is recorded: every retry executes again");
  }
}

// What one call of a store behind a server may take.
Duration longest_store_call(const ServerSettings& server) {
  const Duration replicas = server.wait_replicas > 0 ? server.wait_timeout : Duration::zero();
  return server.connect_timeout + server.timeout + replicas;
}

void check_times(const Config& config, const Policy& policy, const Where& where, Checked& out) {
  const auto warning = [&](std::string text) { out.warnings.push_back(at(where, std::move(text))); };
  const Duration call = longest_store_call(config.server);
  if (store_kind(config.store) != StoreKind::other && policy.lease <= call) {
    warning(
        fmt::format("lease ({}) is not longer than one call of the store may take ({}: server.connect_timeout and "
                    "server.timeout, with replicas redis.wait_timeout): while the store is slow, requests get 503",
                    format_duration(policy.lease), format_duration(call)));
  }
  if (policy.on_unknown == OnUnknown::takeover && policy.takeover_after < policy.timeouts.response) {
    warning(
        fmt::format("takeover_after ({}) is shorter than timeouts.response ({}): a retry may execute while the backend "
                    "is still at work on the attempt before it",
                    format_duration(policy.takeover_after), format_duration(policy.timeouts.response)));
  }
}

// One warning, for the route that may take longest.
void check_drain(const Config& config, Checked& out) {
  const auto longest =
      std::ranges::max_element(config.routes, {}, [](const Route& each) { return each.policy.timeouts.response; });
  if (longest == config.routes.end() || config.timeouts.drain >= longest->policy.timeouts.response) return;
  out.warnings.push_back(
      {"", 0, 0,
       fmt::format("timeouts.drain ({}) is shorter than timeouts.response ({}) of the route for {}: a restart cuts off "
                   "requests that are still waited for, and their outcomes are unknown",
                   format_duration(config.timeouts.drain), format_duration(longest->policy.timeouts.response),
                   longest->path)});
}

bool has_lives(const Policy& policy) {
  return std::ranges::find(policy.scope, ScopePart::life) != policy.scope.end();
}

// A key may be recorded as long after its claim as its request may take, and counts from then.
Duration longest_key(const Policy& policy) {
  return policy.timeouts.connect + policy.timeouts.response + policy.lease + policy.ttl + policy.tombstone;
}

bool meets(const std::optional<MethodSet>& methods, const MethodSet& others) {
  return methods ? (*methods & others).any() : others.any();
}

// One route may use keys that another one ends.
void check_lives(Config& config, Checked& out) {
  Duration longest{};
  for (const Route& route : config.routes) {
    if (has_lives(route.policy)) longest = std::max(longest, longest_key(route.policy));
  }
  for (Route& route : config.routes) {
    Policy& policy = route.policy;
    if (!has_lives(policy)) continue;
    policy.life.remembered = longest;
    if (std::ranges::find(policy.scope, ScopePart::path) == policy.scope.end()) {
      out.errors.push_back(at(route.where, "scope: life needs path: it is the life of what the path names"));
    }
    if (policy.mode == Mode::shadow) {
      out.warnings.push_back(at(route.where, "scope: life does nothing with mode: shadow"));
    }
    const bool ends = std::ranges::any_of(config.routes, [&](const Route& other) {
      return other.path == route.path && has_lives(other.policy) && meets(other.methods, other.policy.life.ended_by);
    });
    if (!ends) {
      out.warnings.push_back(
          at(route.where,
             fmt::format("scope: life: nothing ends it, no route for {} takes a method of life.ended_by", route.path)));
    }
  }
}

// Whether requests without a caller share keys only because caller_missing was not set. An address is always there.
bool shares_unsaid(const Policy& policy) {
  const bool in_scope = std::ranges::find(policy.scope, ScopePart::caller) != policy.scope.end();
  return in_scope && !policy.caller_missing_chosen &&
         std::ranges::any_of(policy.caller,
                             [](const CallerSource& source) { return source.kind != CallerSource::Kind::client_ip; });
}

// An API whose clients show an X-Api-Key has no Authorization: there every caller would be the same one.
void check_missing_callers(const Config& config, Checked& out) {
  const bool production = config.environment == Environment::production;
  std::vector<const Route*> unsaid;
  for (const Route& route : config.routes) {
    const bool warned = !production && std::ranges::any_of(route.policy.caller, is_proven);  // by check_callers()
    if (shares_unsaid(route.policy) && !warned) unsaid.push_back(&route);
  }
  const auto name_of = caller_codec().format;
  for (const Route* route : unsaid) {
    std::string text = fmt::format(
        "caller_missing is not set: say reject, or anonymous if requests with a key and without {} may share one "
        "caller and be given each other's answers",
        name_of(route->policy.caller.front()));
    const std::size_t others = unsaid.size() - 1;
    if (!production && others > 0) text += fmt::format(" (and for {} more route{})", others, others == 1 ? "" : "s");
    (production ? out.errors : out.warnings).push_back(at(route->where, std::move(text)));
    if (!production) return;
  }
}

bool covers(const std::optional<MethodSet>& earlier, const std::optional<MethodSet>& later) {
  if (!earlier) return true;
  return later && (*later & ~*earlier).none();
}

void check_routes(Config& config, Checked& out) {
  std::vector<std::string_view> names;
  for (const Upstream& upstream : config.upstreams) names.push_back(upstream.name);
  for (auto route = config.routes.begin(); route != config.routes.end(); ++route) {
    if (route->upstream.empty() && !names.empty()) route->upstream = names.front();
    if (!names.empty() && std::ranges::find(names, route->upstream) == names.end()) {
      out.errors.push_back(at(route->where, fmt::format("upstream: there is no upstream \"{}\"{}", route->upstream,
                                                        suggestion(route->upstream, names))));
    }
    const auto hidden_by = std::find_if(config.routes.begin(), route, [&](const Route& earlier) {
      return (earlier.path == "/**" || earlier.path == route->path) && covers(earlier.methods, route->methods);
    });
    if (hidden_by != route) {
      out.warnings.push_back(at(
          route->where, fmt::format("never taken: the route for {} before it matches all of this", hidden_by->path)));
    }
    check_policy(route->policy, route->where, out);
    check_times(config, route->policy, route->where, out);
    check_callers(config, route->policy, route->where, out);
  }
  check_missing_callers(config, out);
  check_lives(config, out);
  check_drain(config, out);
}

void check_claims(const Config& config, Checked& out) {
  const ClaimsSettings& claims = config.claims;
  if (claims.listen == "off") return;
  const auto error = [&](std::string text) { out.errors.push_back({"", 0, 0, std::move(text)}); };
  const auto address = parse_address(claims.listen);
  if (address && claims.tokens.empty()) {
    error(
        fmt::format("claims.listen is {}: anybody who can connect could end the work of others, so claims.tokens is "
                    "needed, on loopback too; without tokens use unix:/path/to.sock",
                    claims.listen));
  }
  if (address && address->port != 0 && (claims.listen == config.listen || claims.listen == config.admin)) {
    error(fmt::format("claims.listen is {}, where something else is served", claims.listen));
  }
}

bool names_loopback(const Address& address) {
  if (address.host == "localhost") return true;
  return http::is_numeric(address.host) && (address.host.starts_with("127.") || address.host == "::1");
}

void check_admin(const Config& config, Checked& out) {
  const auto address = parse_address(config.admin);
  if (!address || !config.admin_token.empty()) return;
  if (names_loopback(*address)) {
    if (config.environment != Environment::production) return;
    out.errors.push_back(
        at(config.environment_where,
           fmt::format("environment is production and admin is {}: everybody on this machine could see and change "
                       "everything, so admin_token is needed, such as admin_token: file:/etc/once/admin-token; "
                       "without one use admin: off",
                       config.admin)));
    return;
  }
  out.errors.push_back(
      at(config.admin_where,
         fmt::format("admin is {}: from other machines anybody could see and change everything, so admin_token is "
                     "needed, such as admin_token: file:/etc/once/admin-token; without one use 127.0.0.1",
                     config.admin)));
}

void check_tls(const Config& config, Checked& out) {
  const auto error = [&](std::string text) { out.errors.push_back({"", 0, 0, std::move(text)}); };
  const http::TlsServerSettings& tls = config.tls;
  if (tls.listen == "off") {
    if (config.listen == "off") error("listen and tls.listen are both off: clients could not connect anywhere");
    return;
  }
  if (tls.certificates.empty()) {
    error(fmt::format("tls.listen is {}: tls.certificates must name a certificate to show", tls.listen));
  }
  if (!tls.client_crl.empty() && tls.client_ca.empty()) {
    error("tls.client_crl is of use with tls.client_ca only: clients are not asked for certificates");
  }
  const auto address = parse_address(tls.listen);
  const bool twice = tls.listen == config.listen || tls.listen == config.admin || tls.listen == config.claims.listen;
  if (address && address->port != 0 && twice) {
    error(fmt::format("tls.listen is {}, where something else is served", tls.listen));
  }
}

ConfigError unplaced(std::string text) {
  return {"", 0, 0, std::move(text)};
}

void take_secret(std::expected<Secret, std::string> read, std::string_view setting, std::string& into, Checked& out) {
  if (!read) {
    out.errors.push_back(unplaced(fmt::format("{}: {}", setting, read.error())));
    return;
  }
  if (!read->warning.empty()) out.warnings.push_back(unplaced(std::move(read->warning)));
  into = std::move(read->bytes);
}

void read_tls_files(const Config& config, Checked& out) {
  http::Warnings warnings;
  const auto told = [&](std::string_view settings, const auto& made) {
    if (!made) out.errors.push_back(unplaced(fmt::format("{}: {}", settings, made.error().detail)));
    for (const std::string& warning : warnings)
      out.warnings.push_back(unplaced(fmt::format("{}: {}", settings, warning)));
    warnings.clear();
  };
  if (config.tls.listen != "off" && !config.tls.certificates.empty()) {
    told("tls", http::TlsServerContext::make(config.tls, warnings));
  }
  if (!has_https(config.upstreams)) return;
  told("upstream_tls", http::TlsClientContext::make(config.upstream_tls, warnings));
  if (!config.upstream_tls.verify) {
    out.warnings.push_back(
        unplaced("upstream_tls.verify is no: whoever is on the way to a backend can read and change everything"));
  }
}

void read_claims_tokens(Config& config, Checked& out) {
  if (config.claims.listen == "off") return;
  std::vector<ClaimsToken>& tokens = config.claims.tokens;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    take_secret(read_secret(token->file), fmt::format("claims.tokens.{}", token->tenant), token->token, out);
    const auto twin = std::find_if(tokens.begin(), token,
                                   [&](const ClaimsToken& t) { return !t.token.empty() && t.token == token->token; });
    if (twin == token) continue;
    out.errors.push_back(
        unplaced(fmt::format("claims.tokens: {} and {} have the same token", twin->tenant, token->tenant)));
  }
}

// In a tunnel that speaks HTTP, or TLS with HTTP inside, requests would pass by every route.
void check_upgrades(const Config& config, Checked& out) {
  for (const std::string& protocol : config.upgrades) {
    if (!iequals(protocol, "h2c") && !iequals(protocol, "HTTP") && !iequals(protocol, "TLS")) continue;
    out.errors.push_back(unplaced(fmt::format("upgrades: {} would carry requests past Once", protocol)));
  }
}

void check_hosts(const Config& config, Checked& out) {
  const std::vector<std::string>& groups = config.same_hosts;
  if (groups.size() > 1 && std::ranges::find(groups, HostNames::every_host) != groups.end()) {
    out.errors.push_back(unplaced("same_hosts: * is every host, and stands alone"));
    return;
  }
  std::vector<std::string> seen;
  for (const std::string& group : groups) {
    for (const std::string_view name : split(group, ' ')) {
      std::string scratch;
      const std::string_view normal = normalise_host(name, scratch);
      if (std::ranges::find(seen, normal) != seen.end()) {
        out.errors.push_back(unplaced(fmt::format("same_hosts: {} is there twice", normal)));
      }
      seen.emplace_back(normal);
    }
  }
}

void check_process(const Config& config, Checked& out) {
  const auto error = [&](std::string text) { out.errors.push_back({"", 0, 0, std::move(text)}); };
  if (config.upstreams.empty()) {
    error(
        "no backend: say where requests go, with --upstream http://HOST:PORT or upstreams: in the configuration file");
  }
  for (const Upstream& upstream : config.upstreams) {
    if (upstream.max_connections == 0 || upstream.max_connections >= config.threads) continue;
    out.warnings.push_back(
        at(upstream.where, fmt::format("upstreams.{}.max_connections ({}) is less than threads ({}): "
                                       "each thread has one all the same",
                                       upstream.name, upstream.max_connections, config.threads)));
  }
  const auto listen = parse_address(config.listen);
  if (config.listen == config.admin && listen && listen->port != 0) {
    error(fmt::format("listen and admin are both {}", config.listen));
  }
  if (config.pool.keyed_idle_max > config.pool.idle_max) {
    error(fmt::format("pool.keyed_idle_max ({}) must not be longer than pool.idle_max ({})",
                      format_duration(config.pool.keyed_idle_max), format_duration(config.pool.idle_max)));
  }
  if (config.limits.max_uri_bytes > config.limits.max_header_bytes) {
    error(fmt::format("limits.max_uri_bytes ({}) must not be larger than limits.max_header_bytes ({})",
                      format_size(config.limits.max_uri_bytes), format_size(config.limits.max_header_bytes)));
  }
  const JournalSettings& journal = config.journal;
  if (journal.cache_bytes >= journal.max_memory) {
    error(fmt::format("journal.cache ({}) must be smaller than journal.max_memory ({})",
                      format_size(journal.cache_bytes), format_size(journal.max_memory)));
  }
  if (journal.segment_bytes > journal.max_disk / 4) {
    error(fmt::format("journal.segment_size ({}) must not be larger than a quarter of journal.max_disk ({})",
                      format_size(journal.segment_bytes), format_size(journal.max_disk)));
  }
  check_hosts(config, out);
  check_upgrades(config, out);
  check_admin(config, out);
  check_claims(config, out);
  check_tls(config, out);
  if (config.environment == Environment::production && config.store == "memory:") {
    out.warnings.push_back({"", 0, 0, "store: memory: forgets every answer when the process ends"});
  }
}

}  // namespace

Checked check(Config& config) {
  Checked out;
  check_process(config, out);
  if (config.routes.empty()) {
    Route everything;
    everything.policy = config.defaults;
    everything.where = config.defaults_where;
    config.routes.push_back(std::move(everything));
  }
  check_routes(config, out);
  return out;
}

Checked read_files(Config& config) {
  Checked out;
  read_tls_files(config, out);
  read_claims_tokens(config, out);
  if (auto verifier = make_verifier(config, out.warnings)) {
    config.jwt.verifier = *std::move(verifier);
  } else {
    out.errors.push_back(unplaced(std::move(verifier.error())));
  }
  config.sealing_secrets.clear();
  for (const std::string& path : config.encryption_keys) {
    take_secret(read_secret(path), "encryption.keys", config.sealing_secrets.emplace_back(), out);
  }
  return out;
}

Checked check_secrets(const Config& config, const Environ& environ) {
  Checked out;
  const auto secret = given_secret(config, environ);
  if (!secret) {
    out.errors.push_back(unplaced(secret.error()));
  } else if (!secret->warning.empty()) {
    ConfigErrors& told = secret->bytes.empty() ? out.errors : out.warnings;  // serving would refuse to go without one
    told.push_back(unplaced(secret->warning));
  }
  std::string unused;
  take_secret(resolve_secret(config.admin_token, environ), "admin_token", unused, out);
  return out;
}

std::expected<ConfigErrors, ConfigErrors> finish(Config& config, const Environ& environ, Random& random) {
  Checked checked = check(config);
  Checked files = read_files(config);
  std::ranges::move(files.errors, std::back_inserter(checked.errors));
  std::ranges::move(files.warnings, std::back_inserter(checked.warnings));
  take_secret(resolve_secret(config.admin_token, environ), "admin_token", config.admin_token_secret, checked);
  // A process that will not start should not leave a secret behind; but that one is missing is told with the rest.
  if (!checked.errors.empty()) {
    const auto given = given_secret(config, environ);
    const std::string& missing = given ? given->warning : given.error();
    if (!missing.empty() && (!given || given->bytes.empty())) checked.errors.push_back(unplaced(missing));
    return std::unexpected(std::move(checked.errors));
  }
  auto secret = find_secret(config, environ, random);
  if (!secret) return std::unexpected(ConfigErrors{unplaced(std::move(secret.error()))});
  config.secret = std::move(secret->bytes);
  if (!secret->warning.empty()) checked.warnings.push_back(unplaced(std::move(secret->warning)));
  return std::move(checked.warnings);
}

}  // namespace once
