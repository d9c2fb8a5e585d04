#include "config/reload.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/settings.hpp"
#include "gateway/identity/routes.hpp"

namespace once::config {

namespace {

bool in_scope(const Policy& policy, ScopePart part) {
  return std::ranges::find(policy.scope, part) != policy.scope.end();
}

Values id_values(const Setting<Policy>& setting, const Policy& policy) {
  Values values = setting.get(policy);
  if (setting.name == "scope") std::erase(values, "life");  // not part of the id; looked up separately
  return values;
}

// The settings of a route that determine operation ids.
bool is_in_id(std::string_view setting) {
  static constexpr std::array names = {std::string_view("key.header"), std::string_view("key.derive"),
                                       std::string_view("caller"), std::string_view("scope"),
                                       std::string_view("scope_headers")};
  return std::ranges::find(names, setting) != names.end();
}

std::string shown(const Values& values) {
  return values.empty() ? "none" : fmt::format("{}", fmt::join(values, ", "));
}

bool is_for_hosts(const Route& each, const std::vector<std::string>& hosts) {
  if (each.hosts.empty()) return true;
  return std::ranges::any_of(hosts, [&each](const std::string& host) {
    return std::ranges::any_of(each.hosts,
                               [&](const std::string& own) { return HostPattern(own).covers(HostPattern(host)); });
  });
}

// The route that would take requests of `route` with this method: one for the same hosts and path, or else the first
// match.
const Route* taking(const std::vector<Route>& routes, const Route& route, std::size_t method) {
  const auto takes = [method](const Route& each) { return !each.methods || each.methods->test(method); };
  const auto same = std::ranges::find_if(
      routes, [&](const Route& each) { return each.path == route.path && each.hosts == route.hosts && takes(each); });
  if (same != routes.end()) return &*same;
  const auto first = std::ranges::find_if(routes, [&](const Route& each) {
    return takes(each) && is_for_hosts(each, route.hosts) && PathPattern(each.path).matches(route.path);
  });
  return first == routes.end() ? nullptr : &*first;
}

void add_once(std::vector<std::string>& out, std::string line) {
  if (std::ranges::find(out, line) == out.end()) out.push_back(std::move(line));
}

constexpr std::string_view executes_again = "its keys are lost, and a retry of an earlier request executes again";

void compare(const std::string& path, const Policy& before, const Policy& after, std::vector<std::string>& out) {
  const std::string dialects = before.dialect == after.dialect
                                   ? ""
                                   : fmt::format(", by dialect {} instead of {}", after.dialect, before.dialect);
  for (const Setting<Policy>& setting : policy_settings()) {
    const bool fingerprint = setting.name.starts_with("fingerprint.");
    if (!fingerprint && !is_in_id(setting.name)) continue;
    const bool counts = in_scope(before, ScopePart::caller) && in_scope(after, ScopePart::caller);
    if (setting.name == "caller" && !counts) continue;  // the change of scope is already reported
    const Values old_values = id_values(setting, before);
    const Values new_values = id_values(setting, after);
    if (old_values == new_values) continue;
    add_once(out, fmt::format("route {}: {} changes from {} to {}{}: {}", path, setting.name, shown(old_values),
                              shown(new_values), dialects,
                              fingerprint ? "a retry of an earlier request is refused as a mismatch" : executes_again));
  }
}

// Compares a route that protects requests with the route that will take them.
void follow(const Route& route, const std::vector<Route>& wanted, std::vector<std::string>& out) {
  for (std::size_t method = 0; method < route.policy.methods.size(); ++method) {
    if (!route.policy.methods.test(method) || (route.methods && !route.methods->test(method))) continue;
    const Route* after = taking(wanted, route, method);
    if (after != nullptr && after->policy.methods.test(method)) {
      compare(route_label(route), route.policy, after->policy, out);
    } else {
      add_once(out, fmt::format("route {}: {} is no longer protected: {}", route_label(route),
                                shown(format_methods(MethodSet().set(method))), executes_again));
    }
  }
}

// Compares a new route with the running route whose requests it will take.
void follow_back(const Route& route, const std::vector<Route>& running, std::vector<std::string>& out) {
  for (std::size_t method = 0; method < route.policy.methods.size(); ++method) {
    if (route.methods && !route.methods->test(method)) continue;
    const Route* before = taking(running, route, method);
    if (before == nullptr || (before->path == route.path && before->hosts == route.hosts) ||
        !before->policy.methods.test(method))
      continue;
    compare(route_label(route), before->policy, route.policy, out);
  }
}

}  // namespace

bool reloads(std::string_view setting) {
  static constexpr std::array names = {std::string_view("include"),         std::string_view("upstreams"),
                                       std::string_view("log.level"),       std::string_view("log.access"),
                                       std::string_view("log.access_file"), std::string_view("trusted_proxies"),
                                       std::string_view("same_hosts"),      std::string_view("upgrades")};
  static constexpr std::array groups = {std::string_view("limits."),        std::string_view("timeouts."),
                                        std::string_view("pool."),          std::string_view("jwt."),
                                        std::string_view("tls."),           std::string_view("upstream_tls."),
                                        std::string_view("proxy_protocol.")};
  if (setting == "tls.listen") return false;
  return std::ranges::find(names, setting) != names.end() ||
         std::ranges::any_of(groups, [setting](std::string_view group) { return setting.starts_with(group); });
}

std::vector<std::string> needs_restart(const Config& running, const Config& wanted) {
  std::vector<std::string> names;
  for (const Setting<Config>& setting : process_settings()) {
    if (!reloads(setting.name) && setting.get(running) != setting.get(wanted)) names.emplace_back(setting.name);
  }
  // Also compare parts of URLs that are never shown, and contents of files.
  if (running.store != wanted.store && std::ranges::find(names, "store") == names.end()) names.emplace_back("store");
  if (running.secret != wanted.secret) names.emplace_back("the secret");
  if (running.admin_token_secret != wanted.admin_token_secret) names.emplace_back("the contents of admin_token");
  if (running.sealing_secrets != wanted.sealing_secrets) names.emplace_back("the contents of encryption.keys");
  return names;
}

std::vector<std::string> forgotten_keys(const Config& running, const Config& wanted) {
  std::vector<std::string> out;
  for (const Route& route : running.routes) follow(route, wanted.routes, out);
  for (const Route& route : wanted.routes) follow_back(route, running.routes, out);
  if (running.same_hosts != wanted.same_hosts) {
    out.push_back(
        fmt::format("same_hosts changes from {} to {}: keys that were used with these hosts are lost, and a retry of "
                    "an earlier request executes again",
                    shown(running.same_hosts), shown(wanted.same_hosts)));
  }
  if (running.trusted_proxies != wanted.trusted_proxies) {
    out.emplace_back(
        "trusted_proxies changes: keys of requests through these proxies are lost where the caller, the client's "
        "address or the host comes from a proxy");
  }
  const bool same_peers = running.proxy_protocol_listen == wanted.proxy_protocol_listen &&
                          running.proxy_protocol_tls == wanted.proxy_protocol_tls;
  if (!same_peers) {
    out.emplace_back(
        "proxy_protocol changes: clients now have other addresses, and keys are lost where the caller is the "
        "client's address");
  }
  return out;
}

}  // namespace once::config
