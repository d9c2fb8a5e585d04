#include "admin/readiness.hpp"

#include <algorithm>
#include <chrono>

#include "admin/admin.hpp"

namespace once::admin {

namespace {

// An event within this time counts as the current state. docs/reference/configuration/process.md names it.
constexpr std::chrono::seconds recently{5};

std::uint64_t refused_as_full(const Gateway& gateway) {
  std::uint64_t sum = 0;
  for (const Metrics* metrics : gateway.metrics()) sum += metrics->store_full.value();
  return sum;
}

}  // namespace

bool Readiness::has(ReadyCheck check) const {
  return std::ranges::find(sources_.ready_checks, check) != sources_.ready_checks.end();
}

void Readiness::look(Instant now) {
  const std::uint64_t refused = refused_as_full(sources_.gateway);
  if (refused > refused_) refused_at_ = now;
  refused_ = refused;
}

// A server is up if requests may be sent to it. If one without health checks counted as down until a request succeeds,
// it would stay down for ever, because no requests come while this gateway is not ready.
bool Readiness::any_upstream_up(Instant now) const {
  const auto generation = sources_.gateway.generation();
  const Upstreams& upstreams = *generation->upstreams;
  for (std::size_t i = 0; i < upstreams.size(); ++i) {
    for (const auto& server : upstreams[i].servers) {
      if (server->health.up(now)) return true;
    }
  }
  return false;
}

bool Readiness::full(Instant now) const {
  return sources_.store.store().condition() == StoreCondition::full || now < refused_at_ + recently;
}

std::string_view Readiness::wrong(Instant now) {
  look(now);
  const bool out_of_descriptors = now < sources_.gateway.faults().last_out_of_descriptors() + recently;
  if (has(ReadyCheck::descriptors) && out_of_descriptors) return "out of file descriptors";
  if (has(ReadyCheck::room) && full(now)) return "store full";
  if (has(ReadyCheck::upstreams) && !any_upstream_up(now)) return "no upstream is up";
  return "";
}

}  // namespace once::admin
