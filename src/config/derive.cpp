#include "config/derive.hpp"

#include <algorithm>

#include "config/codec.hpp"

namespace once::config {

namespace {

using namespace std::chrono_literals;

// A fraction of the shortest ttl, by which expired records may be kept for longer.
Duration part_of_ttl(const Config& config) {
  Duration shortest = config.routes.empty() ? config.defaults.ttl : Duration::max();
  for (const Route& route : config.routes) shortest = std::min(shortest, route.policy.ttl);
  return std::max(shortest / 24, Duration(1s));
}

void derive_upstream(Upstream& upstream) {
  upstream.fail_timeout = upstream.eject.time = 2 * upstream.health.interval;
  upstream.eject.max_time = 30 * upstream.eject.time;
}

}  // namespace

void derive(Config& config) {
  for (Upstream& upstream : config.upstreams) derive_upstream(upstream);
  config.pool.keyed_idle_max = config.pool.idle_max / 4;
  config.journal.segment_bytes = std::clamp(config.journal.max_disk / 160, one_mib, 64 * one_mib);
  config.journal.segment_age = std::min(part_of_ttl(config), Duration(1h));
  config.server.sweep_every = std::min(part_of_ttl(config), Duration(1min));
  config.server.wait_timeout = config.server.timeout / 5;
  config.limits.max_uri_bytes = config.limits.max_header_bytes / 4;
  config.timeouts.handover = std::max(config.timeouts.drain / 2, Duration(30s));
  config.claims.max_progress = config.claims.max_body;
}

}  // namespace once::config
