#include "cli/descriptors.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <limits>
#include <system_error>

#include "gateway/settings.hpp"

namespace once::cli {

namespace {

// The kernel's default maximum per process. More would only enlarge tables.
constexpr rlim_t most_descriptors = 1U << 20U;
// For the admin interface, name resolution, health checks, and segments that the journal opens.
constexpr std::size_t spare_descriptors = 64;
constexpr std::size_t least_connections = 8;
// Refused connections keep their descriptors for a moment. Reserve an eighth of the connections served, at most this
// many.
constexpr std::size_t most_lingering = 1024;

// The most connections to all upstream servers together; 0: unlimited.
std::size_t upstream_connections(const Config& config) {
  std::size_t sum = 0;
  for (const Upstream& upstream : config.upstreams) {
    if (upstream.max_connections == 0) return 0;
    sum += upstream.max_connections * upstream.servers.size();
  }
  return sum;
}

std::size_t lesser(std::size_t backends, std::size_t connections) {
  return backends == 0 ? connections : std::min(backends, connections);
}

}  // namespace

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::max(before, std::min(limit.rlim_max, most_descriptors));
  // A sandbox may forbid this; then the limit stays.
  if (limit.rlim_cur != before && ::setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t descriptors_in_use() {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

ConnectionLimit connection_limit(const Config& config, const DescriptorBudget& budget) {
  const std::size_t backends = upstream_connections(config);
  const std::size_t claims = config.claims.listen == "off" ? 0 : config.claims.max_connections;
  const std::size_t fixed = budget.in_use + claims + spare_descriptors;
  std::size_t left = budget.limit > fixed ? budget.limit - fixed : 0;
  left -= std::min(most_lingering, left / 16);
  // Allows each client connection one connection to a backend.
  const std::size_t fit = std::max(left - lesser(backends, left / 2), least_connections);
  const std::size_t wanted = config.max_connections;
  if (wanted == 0) return {.connections = std::min(Limits().max_connections, fit)};
  const std::size_t needed = fixed + std::min(most_lingering, wanted / 8) + wanted + lesser(backends, wanted);
  if (wanted <= fit) return {.connections = wanted};
  // The configured number does not fit. Reserve at most a quarter for backends: idle client connections need none.
  const std::size_t most = std::max(left - lesser(backends, left / 4), least_connections);
  return {.connections = std::min(wanted, most), .needed = needed};
}

}  // namespace once::cli
