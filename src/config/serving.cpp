#include "config/serving.hpp"

#include "config/prepare.hpp"
#include "store/catalog/catalog.hpp"

namespace once::config {

namespace {

http::AddressSet addresses_of(const std::vector<std::string>& networks) {
  http::AddressSet set;
  for (const std::string& network : networks) set.add(network);  // valid: checked by config
  return set;
}

// Limits an address with unverified callers to three quarters of the store, so that a quarter is left for others. A
// store that evicts has its own rule.
Limits limits_by_store(const Config& config) {
  Limits limits = config.limits;
  if (!config.spool_folder.empty()) limits.spool_directory = config.spool_folder;
  if (limits.address.stored_bytes != 0) return limits;
  const StoreType* const store = find_store(config.store);
  if (store != nullptr && store->capacity != nullptr) {
    limits.address.stored_bytes = store->capacity(store_settings(config)) / 4 * 3;
  }
  return limits;
}

}  // namespace

ServingSettings serving_settings(const Config& config) {
  return {.upstreams = config.upstreams,
          .routes = config.routes,
          .limits = limits_by_store(config),
          .timeouts = config.timeouts,
          .pool = config.pool,
          .tokens = {.header = config.jwt.header, .verifier = config.jwt.verifier},
          .access_log = config.log.access,
          .trusted_proxies = addresses_of(config.trusted_proxies),
          .proxy_protocol = {.plain = config.proxy_protocol_listen,
                             .tls = config.proxy_protocol_tls,
                             .from = addresses_of(config.proxy_protocol_from)},
          .hosts = HostNames(config.same_hosts),
          .upgrades = config.upgrades,
          .tls = config.tls,
          .upstream_tls = config.upstream_tls};
}

}  // namespace once::config
