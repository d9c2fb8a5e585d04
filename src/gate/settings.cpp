#include "gate/settings.hpp"

#include <algorithm>
#include <utility>

#include "base/random.hpp"
#include "config/include.hpp"
#include "config/load.hpp"
#include "config/prepare.hpp"

namespace once::gate {

namespace {

std::string lines_of(const ConfigErrors& errors) {
  std::string lines;
  for (const ConfigError& error : errors) {
    if (!lines.empty()) lines.push_back('\n');
    lines.append(to_string(error));
  }
  return lines;
}

Loaded load_settings(const Options& options, const Environ& environ) {
  std::vector<Override> overrides;
  for (const Field& setting : options.settings) {
    overrides.push_back({.flag = setting.name, .setting = setting.name, .value = setting.value});
  }
  if (options.config_text.empty()) return load_all(options.config_file, overrides, environ);
  const ReadIncluded included = [](const std::string& pattern) { return read_included(pattern, ""); };
  return parse_all(options.config_text, "", overrides, environ, included);
}

// Routes may name upstreams; the first one is the default. A gate connects to none.
void name_upstreams(Config& config) {
  for (Upstream& upstream : config.upstreams) {
    upstream = {.name = upstream.name, .servers = {}, .base_path = upstream.base_path, .where = upstream.where};
  }
  const bool given = !config.upstreams.empty();
  if (!given) config.upstreams.push_back({.name = "default", .servers = {}, .base_path = {}, .where = {}});
  if (given) return;
  for (const Route& route : config.routes) {
    const bool known = std::ranges::find(config.upstreams, route.upstream, &Upstream::name) != config.upstreams.end();
    if (!known && !route.upstream.empty()) {
      config.upstreams.push_back({.name = route.upstream, .servers = {}, .base_path = {}, .where = {}});
    }
  }
}

// The file may be a gateway's. Resets the settings that a gate does not use, such as listeners, upstream servers,
// access log and spool, so that they need not be valid.
void leave_out_sockets(Config& config) {
  const Config usual;
  config.listen = usual.listen;
  config.admin = "off";
  config.admin_token.clear();
  config.claims = usual.claims;
  config.claims.listen = "off";
  config.tls = usual.tls;
  config.tls.listen = "off";
  config.upstream_tls = usual.upstream_tls;
  config.proxy_protocol_listen = config.proxy_protocol_tls = false;
  config.proxy_protocol_from.clear();
  config.audit_log.clear();
  config.log.access_file.clear();
  config.log.access = usual.log.access;
  config.timeouts = usual.timeouts;
  config.pool = usual.pool;
  config.upgrades = usual.upgrades;
  // Request bodies are in the caller's memory.
  config.limits.spool_directory.clear();
  config.defaults.max_large_request = 0;
  for (Route& route : config.routes) route.policy.max_large_request = 0;
  name_upstreams(config);
}

bool has_life(const Policy& policy) {
  return std::ranges::find(policy.scope, ScopePart::life) != policy.scope.end();
}

// Refuses features that need a real backend, or that must see how requests without a key end.
ConfigErrors only_in_gateway(const Config& config) {
  ConfigErrors errors;
  for (const Route& route : config.routes) {
    const auto refuse = [&](std::string_view setting, std::string_view why) {
      errors.push_back({.file = route.where.file,
                        .line = route.where.line,
                        .column = route.where.column,
                        .text = std::string(setting) + " works in the gateway only: " + std::string(why) +
                                " (route for " + route.path + ")"});
    };
    const Policy& policy = route.policy;
    if (policy.mode == Mode::shadow) {
      refuse("mode: shadow", "a gate protects requests or leaves them alone; use the gateway for a trial");
    }
    if (policy.conditional.if_match != IfMatch::off || policy.conditional.etag != Etags::off) {
      refuse("conditional", "a gate cannot ask the handler for the resource; check If-Match in the handler");
    }
    if (has_life(policy)) refuse("scope: life", "a gate does not see how requests without a key end");
  }
  return errors;
}

std::vector<std::string> warnings_for_gate(const Config& config) {
  std::vector<std::string> warnings;
  for (const Route& route : config.routes) {
    if (route.policy.cors.origins.empty()) continue;
    warnings.push_back("cors.origins has no effect in a gate: use the CORS support of your framework (route for " +
                       route.path + ")");
  }
  return warnings;
}

}  // namespace

std::expected<GateSettings, std::string> read_settings(const Options& options, const Environ& environ) {
  if (!options.config_file.empty() && !options.config_text.empty()) {
    return std::unexpected("give either a configuration file or its text, not both");
  }
  Loaded loaded = load_settings(options, environ);
  if (!loaded.errors.empty()) return std::unexpected(lines_of(loaded.errors));
  leave_out_sockets(loaded.config);
  SystemRandom random;
  auto prepared = prepare(loaded.config, environ, random);
  if (!prepared) return std::unexpected(lines_of(prepared.error()));
  if (const ConfigErrors errors = only_in_gateway(loaded.config); !errors.empty()) {
    return std::unexpected(lines_of(errors));
  }
  std::vector<std::string> warnings = warnings_for_gate(loaded.config);
  for (const ConfigError& warning : *prepared) warnings.push_back(to_string(warning));
  return GateSettings{.config = std::move(loaded.config), .warnings = std::move(warnings)};
}

}  // namespace once::gate
