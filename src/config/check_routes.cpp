#include "config/check_routes.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "config/codec.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "core/path.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/identity/scope.hpp"
#include "http/endpoint.hpp"
#include "store/catalog/catalog.hpp"

namespace once::config {

namespace {

bool is_proven(const CallerSource& source) {
  return source.kind == CallerSource::Kind::jwt || source.kind == CallerSource::Kind::mtls_subject;
}

// Whether the source is a header that any client can set to any value, rather than a credential.
bool is_unproven_name(const CallerSource& source) {
  if (source.kind != CallerSource::Kind::header) return false;
  std::string name = source.name;
  std::ranges::transform(name, name.begin(), [](char c) { return to_lower(c); });
  return std::ranges::none_of(std::array{"authorization", "cookie", "token", "secret", "api-key", "apikey", "api_key"},
                              [&](std::string_view credential) { return name.contains(credential); });
}

void check_callers(const Config& config, const Route& route, Findings& out) {
  const Policy& policy = route.policy;
  const auto name_of = caller_codec().format;
  const bool in_scope = std::ranges::find(policy.scope, ScopePart::caller) != policy.scope.end();
  if (policy.caller.empty() && in_scope) {
    out.warning(route, {"caller"}, "caller is none: callers that use the same key get each other's responses");
  }
  // A scope without the caller is intended if `caller: none` is set, so do not warn then.
  if (!policy.caller.empty() && !in_scope) {
    out.warning(route, {"scope", "dialect"},
                "the caller is not part of scope: callers that use the same key get each other's responses; add caller "
                "to scope, or set caller: none if this is intended");
  }
  if (policy.caller.size() > max_caller_sources) {
    out.error(route, {"caller"},
              fmt::format("caller: at most {} sources, got {}", max_caller_sources, policy.caller.size()));
  }
  if (policy.scope_headers.size() > max_scope_headers) {
    out.error(route, {"scope_headers"},
              fmt::format("scope_headers: at most {}, got {}", max_scope_headers, policy.scope_headers.size()));
  }
  const bool has_keys = !config.jwt.keys.empty() || !config.jwt.secrets.empty();
  for (const CallerSource& source : policy.caller) {
    if (source.kind != CallerSource::Kind::jwt || has_keys) continue;
    out.error(route, {"caller", "dialect"},
              fmt::format("caller: {} needs a key to verify tokens: set jwt.keys or jwt.secrets", name_of(source)));
  }
  const bool asks_for_certificates = config.tls.listen != "off" && !config.tls.client_ca.empty();
  for (const CallerSource& source : policy.caller) {
    if (source.kind != CallerSource::Kind::mtls_subject || asks_for_certificates) continue;
    out.error(route, {"caller"},
              fmt::format("caller: {} needs client certificates: set tls.listen and tls.client_ca", name_of(source)));
  }
  for (const CallerSource& source : policy.caller) {
    if (!in_scope || source.kind != CallerSource::Kind::proxy_header || !config.trusted_proxies.empty()) continue;
    out.error(route, {"caller", "dialect"},
              fmt::format("caller: {} needs trusted_proxies: list the proxy that sets this header", name_of(source)));
  }
  if (in_scope && !policy.caller.empty() && std::ranges::all_of(policy.caller, is_unproven_name)) {
    out.warning(
        route, {"caller"},
        fmt::format("caller: {}: clients can set this header themselves and get the responses of others; if a proxy "
                    "sets it, use proxy-header:{} and trusted_proxies",
                    name_of(policy.caller.front()), policy.caller.front().name));
  }
  const auto proven = std::ranges::find_if(policy.caller, is_proven);
  if (in_scope && proven != policy.caller.end() && policy.caller_missing == CallerMissing::anonymous) {
    out.warning(
        route, {"caller_missing", "caller"},
        fmt::format("caller: {} with caller_missing: anonymous: requests without a caller that use the same key get "
                    "each other's responses; caller_missing: reject refuses them",
                    name_of(*proven)));
  }
  if (!in_scope && policy.caller_missing == CallerMissing::reject) {
    out.warning(route, {"caller_missing"}, "caller_missing: reject has no effect: the caller is not part of scope");
  }
}

// Headers that do not identify one operation, or that do not reach the gateway as the client sent them.
bool cannot_carry_keys(std::string_view name) {
  constexpr std::string_view others[] = {"Accept",
                                         "Accept-Encoding",
                                         "Accept-Language",
                                         "Authorization",
                                         "Content-Encoding",
                                         "Content-Length",
                                         "Content-Type",
                                         "Content-Range",
                                         "Cookie",
                                         "Date",
                                         "Expect",
                                         "Forwarded",
                                         "Host",
                                         "Origin",
                                         "Range",
                                         "Referer",
                                         "Set-Cookie",
                                         "User-Agent",
                                         "Via",
                                         "X-Forwarded-For",
                                         "X-Forwarded-Host",
                                         "X-Forwarded-Proto"};
  return is_hop_by_hop(name) || is_reserved_request_header(name) ||
         std::ranges::any_of(others, [&](std::string_view other) { return same_variable(name, other); });
}

bool any_success(const StatusSet& statuses) {
  for (int status = 200; status < 300; ++status) {
    if (contains(statuses, status)) return true;
  }
  return false;
}

void check_policy(const Route& route, Findings& out) {
  const Policy& policy = route.policy;
  if (cannot_carry_keys(policy.key.header)) {
    out.error(route, {"key.header"},
              fmt::format("key.header: {} already has a meaning in HTTP and cannot carry keys", policy.key.header));
  }
  for (const auto& [method, name] : {std::pair(Method::get, "GET"), std::pair(Method::head, "HEAD"),
                                     std::pair(Method::options, "OPTIONS"), std::pair(Method::query, "QUERY")}) {
    if (!contains(policy.methods, method)) continue;
    out.warning(
        route, {"key.methods"},
        fmt::format("key.methods: {} is a safe method, on which a key has no effect: its requests pass through, "
                    "with a key and without one",
                    name));
  }
  if (any_success(policy.record.refusals)) {
    out.error(route, {"record.refusals"},
              "record.refusals: a 2xx means that the work was done; its key would be free, and a retry would do it "
              "again");
  }
  if (policy.lease >= policy.ttl) {
    out.error(route, {"lease", "ttl"},
              fmt::format("lease ({}) must be shorter than ttl ({})", format_duration(policy.lease),
                          format_duration(policy.ttl)));
  }
  if (policy.max_large_request != 0 && policy.max_large_request < policy.max_request_body) {
    out.error(route, {"max_large_request", "max_request_body"},
              fmt::format("max_large_request ({}) must be 0 or at least max_request_body ({})",
                          format_size(policy.max_large_request), format_size(policy.max_request_body)));
  }
  const bool json = policy.fingerprint.body == FingerprintPolicy::Body::json;
  if (!json && !policy.fingerprint.include.empty())
    out.error(route, {"fingerprint.include"}, "fingerprint.include needs fingerprint.body: json");
  if (!json && !policy.fingerprint.exclude.empty())
    out.error(route, {"fingerprint.exclude"}, "fingerprint.exclude needs fingerprint.body: json");
  const Duration kept = terms_of(policy).ttl;
  if (policy.on_unknown == OnUnknown::takeover && policy.takeover_after >= kept) {
    out.warning(route, {"takeover_after", "ttl"},
                fmt::format("takeover_after ({}) is not shorter than the time for which an unknown key is kept ({}): "
                            "the key expires before a takeover",
                            format_duration(policy.takeover_after), format_duration(kept)));
  }
  const bool everybody = std::ranges::find(policy.cors.origins, "*") != policy.cors.origins.end();
  if (everybody && policy.cors.origins.size() > 1)
    out.error(route, {"cors.origins"}, "cors.origins: * means every origin and cannot be combined with others");
  if (everybody && policy.cors.credentials) {
    out.error(route, {"cors.credentials"},
              "cors.credentials needs explicit cors.origins: with * every page could act as its visitor");
  }
  if (policy.cors.credentials && policy.cors.origins.empty())
    out.error(route, {"cors.credentials"}, "cors.credentials needs cors.origins");
  if ((policy.record.statuses & ~policy.record.refusals).none()) {
    out.warning(route, {"record.statuses", "record.refusals"}, "no status is recorded: every retry executes again");
  }
}

// A DELETE is not reported: its retry gets 412 too, but the client then finds the resource deleted, as it wanted.
void check_conditional(const Route& route, Findings& out) {
  const Policy& policy = route.policy;
  if (policy.conditional.if_match == IfMatch::off || policy.mode == Mode::shadow) return;
  std::vector<std::string_view> unkeyed;
  for (const auto& [method, name] : {std::pair(Method::put, "PUT"), std::pair(Method::patch, "PATCH")}) {
    const auto at = static_cast<std::size_t>(method);
    const bool routed = !route.methods || route.methods->test(at);
    if (routed && !policy.methods.test(at)) unkeyed.emplace_back(name);
  }
  if (unkeyed.empty()) return;
  const std::string names = fmt::format("{}", fmt::join(unkeyed, " and "));
  out.warning(
      route, {"key.methods", "conditional.if_match"},
      fmt::format("conditional.if_match without keys on {}: a retry of a write that succeeded gets 412, because "
                  "the write itself has changed the ETag; add {} to key.methods",
                  names, names));
}

// The longest time that a call of a server store may take.
Duration longest_store_call(const ServerSettings& server) {
  const Duration replicas = server.wait_replicas > 0 ? server.wait_timeout : Duration::zero();
  return server.connect_timeout + server.timeout + replicas;
}

void check_times(const Config& config, const Route& route, Findings& out) {
  const Policy& policy = route.policy;
  const Duration call = longest_store_call(config.server);
  if (is_shared_store(config.store) && policy.lease <= call) {
    out.warning(route, {"lease"},
                fmt::format("lease ({}) should be longer than one store call may take ({}: server.connect_timeout plus "
                            "server.timeout, with replicas a fifth more), or requests get 503 while the store is "
                            "slow",
                            format_duration(policy.lease), format_duration(call)));
  }
  if (policy.on_unknown == OnUnknown::takeover && policy.takeover_after < policy.timeouts.response) {
    out.warning(route, {"takeover_after", "timeouts.response", "on_unknown"},
                fmt::format("takeover_after ({}) is shorter than timeouts.response ({}): a retry may execute while "
                            "the backend is still working on the previous attempt",
                            format_duration(policy.takeover_after), format_duration(policy.timeouts.response)));
  }
}

// Gives one warning, for the route that may take longest.
void check_drain(const Config& config, Findings& out) {
  const auto longest =
      std::ranges::max_element(config.routes, {}, [](const Route& each) { return each.policy.timeouts.response; });
  if (longest == config.routes.end() || config.timeouts.drain >= longest->policy.timeouts.response) return;
  out.warning(
      {"timeouts.drain"},
      fmt::format("timeouts.drain ({}) is shorter than timeouts.response ({}) of the route for {}: a restart cuts "
                  "off running requests, and their outcomes are unknown",
                  format_duration(config.timeouts.drain), format_duration(longest->policy.timeouts.response),
                  longest->path));
}

bool has_lives(const Policy& policy) {
  return std::ranges::find(policy.scope, ScopePart::life) != policy.scope.end();
}

// The longest time that a record exists after its claim: the outcome may be recorded as late as the request may take,
// and its ttl starts then.
Duration longest_key(const Policy& policy) {
  return policy.timeouts.connect + policy.timeouts.response + policy.lease + terms_of(policy).ttl + policy.tombstone;
}

bool takes_delete(const Route& route) {
  return !route.methods || route.methods->test(static_cast<std::size_t>(Method::delete_));
}

bool is_same_path(const Route& a, const Route& b) {
  return PathPattern(a.path) == PathPattern(b.path);
}

// A deletion on one route may end resources of another route, so all routes use the longest time.
void check_lives(Config& config, Findings& out) {
  Duration longest{};
  for (const Route& route : config.routes) {
    if (has_lives(route.policy)) longest = std::max(longest, longest_key(route.policy));
  }
  for (Route& route : config.routes) {
    Policy& policy = route.policy;
    if (!has_lives(policy)) continue;
    policy.life.remembered = longest;
    if (std::ranges::find(policy.scope, ScopePart::path) == policy.scope.end()) {
      out.error(route, {"scope"}, "scope: life needs path: it is the life of the resource at that path");
    }
    if (policy.mode == Mode::shadow) {
      out.warning(route, {"mode", "scope"}, "scope: life has no effect with mode: shadow");
    }
    const bool ends = std::ranges::any_of(config.routes, [&](const Route& other) {
      return is_same_path(other, route) && has_lives(other.policy) && takes_delete(other);
    });
    if (!ends) {
      out.warning(route, {"scope"}, fmt::format("scope: life never ends: no route for {} covers DELETE", route.path));
    }
  }
}

// Whether requests without a caller share keys only because caller_missing was not set. A request always has an
// address.
bool shares_unsaid(const Policy& policy) {
  const bool in_scope = std::ranges::find(policy.scope, ScopePart::caller) != policy.scope.end();
  return in_scope && !policy.caller_missing_chosen &&
         std::ranges::any_of(policy.caller,
                             [](const CallerSource& source) { return source.kind != CallerSource::Kind::client_ip; });
}

// If clients of an API send X-Api-Key and no Authorization, all of them would be the same caller.
void check_missing_callers(const Config& config, Findings& out) {
  const bool production = config.environment == Environment::production;
  std::vector<const Route*> unsaid;
  for (const Route& route : config.routes) {
    const bool warned = !production && std::ranges::any_of(route.policy.caller, is_proven);  // by check_callers()
    if (shares_unsaid(route.policy) && !warned) unsaid.push_back(&route);
  }
  const auto name_of = caller_codec().format;
  for (const Route* route : unsaid) {
    std::string text = fmt::format(
        "caller_missing is not set: set reject, or anonymous if keyed requests without {} may share one caller and "
        "get each other's responses",
        name_of(route->policy.caller.front()));
    const std::size_t others = unsaid.size() - 1;
    if (!production && others > 0) text += fmt::format(" (and for {} more route{})", others, others == 1 ? "" : "s");
    if (production) {
      out.error(*route, {"caller"}, std::move(text));
    } else {
      out.warning(*route, {"caller"}, std::move(text));
      return;
    }
  }
}

bool is_host(std::string_view name) {
  constexpr std::size_t longest_name = 253;
  constexpr std::size_t longest_label = 63;
  if (name.starts_with("*.")) name.remove_prefix(2);
  if (name.starts_with('['))
    return name.ends_with(']') && http::is_numeric(std::string(name.substr(1, name.size() - 2)));
  if (name.ends_with('.')) name.remove_suffix(1);
  return name.size() <= longest_name && std::ranges::all_of(split(name, '.'), [](std::string_view label) {
           return !label.empty() && label.size() <= longest_label;
         });
}

// Whether a path that matches the pattern may begin with `prefix`.
bool may_begin_with(std::string_view pattern, std::string_view prefix) {
  const std::vector<std::string_view> segments = split(pattern, '/');
  const std::vector<std::string_view> wanted = split(prefix, '/');
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (i == segments.size()) return false;
    if (segments[i] == "**") return true;
    const bool any = segments[i] == "*" || (segments[i].starts_with('{') && segments[i].ends_with('}'));
    if (!any && normalise_segment(segments[i]) != normalise_segment(wanted[i])) return false;
  }
  return true;
}

void check_places_of(const Route& route, Findings& out) {
  for (const std::string& host : route.hosts) {
    if (is_host(host)) continue;
    out.error(route, {"host"},
              fmt::format("host: {} is neither a host name (labels of 1 to 63 characters, 253 in total) nor an IPv6 "
                          "address",
                          host));
  }
  if (!route.strip_prefix.empty() && !may_begin_with(route.path, route.strip_prefix)) {
    out.warning(route, {"strip_prefix"},
                fmt::format("strip_prefix ({}) has no effect: no path of the route for {} begins with it",
                            route.strip_prefix, route.path));
  }
}

// Warns about takeover_after on a route that never takes over. In the defaults it may be meant for another route.
void check_takeovers(const Config& config, Findings& out) {
  const auto takes_over = [](const Route& route) { return route.policy.on_unknown == OnUnknown::takeover; };
  const bool anywhere = std::ranges::any_of(config.routes, takes_over);
  for (const Route& route : config.routes) {
    const auto own = config.places.find(fmt::format("routes.{}.takeover_after", &route - config.routes.data()));
    const bool is_set = own != config.places.end() || (!anywhere && config.places.contains("defaults.takeover_after"));
    if (!is_set || takes_over(route)) continue;
    out.warning(route, {"takeover_after", "on_unknown"}, "takeover_after has no effect without on_unknown: takeover");
  }
}

// Warns about record.max_stream on a route that records no streams. In the defaults it may be meant for another
// route.
void check_streams(const Config& config, Findings& out) {
  const auto streams = [](const Route& route) { return route.policy.record.stream != StreamRecording::off; };
  const bool anywhere = std::ranges::any_of(config.routes, streams);
  for (const Route& route : config.routes) {
    const auto own = config.places.find(fmt::format("routes.{}.record.max_stream", &route - config.routes.data()));
    const bool is_set =
        own != config.places.end() || (!anywhere && config.places.contains("defaults.record.max_stream"));
    if (!is_set || streams(route)) continue;
    out.warning(route, {"record.max_stream", "record.stream"},
                "record.max_stream has no effect with record.stream: off; record.max_body applies to every response");
  }
}

struct Room {
  std::string_view setting;
  std::uint64_t bytes;
};

// Warns if one response may exceed what the store accepts. `streamed`: for responses recorded as they stream.
void check_room(const Route& route, const Room& whole, const Room& streamed, Findings& out) {
  const RecordPolicy& record = route.policy.record;
  const auto warn = [&](std::string_view setting, std::uint64_t size, const Room& room) {
    if (size <= room.bytes) return;
    out.warning(route, {setting},
                fmt::format("{} ({}) is larger than {} ({}): responses that do not fit are recorded without their body",
                            setting, format_size(size), room.setting, format_size(room.bytes)));
  };
  warn("record.max_body", record.max_body, record.max_body > one_mib ? streamed : whole);
  if (record.stream != StreamRecording::off) warn("record.max_stream", record.max_stream, streamed);
}

// Compares the limit of one request or response with the limit of all together.
void check_sizes(const Config& config, Findings& out) {
  const bool journal = config.store.starts_with("journal:");
  const bool memory = config.store.starts_with("memory:");
  const bool spool_is_set = config.places.contains("limits.max_spool");
  for (const Route& route : config.routes) {
    const Policy& policy = route.policy;
    if (policy.max_large_request > policy.max_request_body && policy.max_large_request > config.limits.max_spool) {
      const std::string text = fmt::format(
          "limits.max_spool ({}) is smaller than max_large_request ({}) of the route for {}: bodies between the two "
          "get 503, however often they are sent",
          format_size(config.limits.max_spool), format_size(policy.max_large_request), route_label(route));
      if (spool_is_set)
        out.warning({"limits.max_spool"}, text);
      else
        out.warning(route, {"max_large_request"}, text);
    }
    const Room disk{"journal.max_disk", config.journal.max_disk};
    const std::uint64_t bytes = config.memory.max_bytes;
    if (journal) check_room(route, disk, disk, out);
    if (memory)
      check_room(route, {"half of memory.max_bytes", bytes / 2}, {"a third of memory.max_bytes", bytes / 3}, out);
  }
}

bool covers_hosts(const Route& earlier, const Route& later) {
  const auto covered = [&earlier](const std::string& host) {
    return std::ranges::any_of(earlier.hosts,
                               [&](const std::string& each) { return HostPattern(each).covers(HostPattern(host)); });
  };
  return earlier.hosts.empty() || (!later.hosts.empty() && std::ranges::all_of(later.hosts, covered));
}

bool covers(const std::optional<MethodSet>& earlier, const std::optional<MethodSet>& later) {
  if (!earlier) return true;
  return later && (*later & ~*earlier).none();
}

}  // namespace

void check_routes(Config& config, Findings& out) {
  std::vector<std::string_view> names;
  for (const Upstream& upstream : config.upstreams) names.push_back(upstream.name);
  for (auto route = config.routes.begin(); route != config.routes.end(); ++route) {
    if (route->upstream.empty() && !names.empty()) route->upstream = names.front();
    const bool refused = config.places.contains("upstreams." + route->upstream);  // it exists, but has a mistake
    if (!names.empty() && !refused && std::ranges::find(names, route->upstream) == names.end()) {
      out.error(
          *route, {"upstream"},
          fmt::format("upstream: there is no upstream \"{}\"{}", route->upstream, suggestion(route->upstream, names)));
    }
    const auto hidden_by = std::find_if(config.routes.begin(), route, [&](const Route& earlier) {
      return (earlier.path == "/**" || is_same_path(earlier, *route)) && covers(earlier.methods, route->methods) &&
             covers_hosts(earlier, *route);
    });
    if (hidden_by != route) {
      out.warning(*route, {},
                  fmt::format("this route is never used: the route for {} before it matches the same requests",
                              route_label(*hidden_by)));
    }
    check_places_of(*route, out);
    check_policy(*route, out);
    check_conditional(*route, out);
    check_times(config, *route, out);
    check_callers(config, *route, out);
  }
  check_missing_callers(config, out);
  check_lives(config, out);
  check_drain(config, out);
  check_takeovers(config, out);
  check_streams(config, out);
  check_sizes(config, out);
}

}  // namespace once::config
