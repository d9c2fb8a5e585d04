#include "admin/alerts.hpp"

#include <fmt/format.h>

namespace once::admin {

namespace {

constexpr double percent = 100;

AlertState firing_if(bool firing) {
  return firing ? AlertState::firing : AlertState::quiet;
}

enum class Bad : std::uint8_t { above, below };

struct Rate {
  std::optional<double> value;
  std::uint64_t of;
  std::uint64_t least;
  double threshold;
  Bad bad;
};

AlertState state_of(const Rate& rate) {
  if (!rate.value || rate.of < rate.least) return AlertState::idle;
  return firing_if(rate.bad == Bad::above ? *rate.value > rate.threshold : *rate.value < rate.threshold);
}

std::string text_of(const Rate& rate, std::string_view what) {
  if (!rate.value || rate.of < rate.least) {
    return fmt::format("{} {} in 5 minutes; the share is computed from {} on", rate.of, what, rate.least);
  }
  return fmt::format("{:.1f} % of {} {}; the threshold is {:.0f} %", *rate.value * percent, rate.of, what,
                     rate.threshold * percent);
}

void add_store(std::vector<Alert>& alerts, const AlertFacts& facts) {
  const StoreHealth store = facts.store;
  alerts.push_back({"OnceJournalFailed", "critical", "Journal failed", firing_if(store == StoreHealth::failed),
                    store == StoreHealth::failed ? "A write to the disk failed: check the disk, then restart"
                                                 : "No write to the disk failed"});
  alerts.push_back({"OnceStoreDown", "critical", "Store down", firing_if(store == StoreHealth::down),
                    fmt::format("The store is {}", name_of(store))});
  alerts.push_back({"OnceStoreErrors", "critical", "Store errors", firing_if(facts.window.store_errors > 0),
                    fmt::format("Failed operations in 5 minutes: {}", facts.window.store_errors)});
  // A journal reports that it is full. For other stores only the refused claims show it.
  const bool full = store == StoreHealth::full || facts.window.store_full > 0;
  alerts.push_back({"OnceStoreFull", "critical", "Store full", firing_if(full),
                    full ? "New keys are refused because the store is full" : "The store has room"});
}

void add_unknown(std::vector<Alert>& alerts, const AlertFacts& facts) {
  alerts.push_back({"OnceOutcomesUnknown", "warning", "Outcomes unknown", firing_if(facts.unknown_outcomes > 0),
                    fmt::format("Executions with an unknown outcome in 15 minutes: {}", facts.unknown_outcomes)});
  const auto keys = facts.unknown_keys;
  alerts.push_back({"OnceKeysHeldUnknown", "warning", "Keys unknown", keys ? firing_if(*keys > 0) : AlertState::idle,
                    keys ? fmt::format("Keys that wait for an operator or a takeover: {}", *keys)
                         : "The keys have not been counted yet"});
}

void add_requests(std::vector<Alert>& alerts, const Window& window) {
  const Rate takeovers{window.takeover_rate(), window.executions, least_executions, most_takeovers, Bad::above};
  alerts.push_back(
      {"OnceTakeoversHigh", "warning", "Takeovers high", state_of(takeovers), text_of(takeovers, "executions")});
  const Rate failures{window.failure_rate(), window.executions, least_executions, most_failures, Bad::above};
  alerts.push_back(
      {"OnceFailuresHigh", "warning", "Failures high", state_of(failures), text_of(failures, "executions")});
  const Rate hits{window.hit_rate(), window.keyed, least_keyed, least_hits, Bad::below};
  alerts.push_back({"OnceHitRateLow", "info", "Hit rate low", state_of(hits), text_of(hits, "requests with a key")});
  alerts.push_back({"OnceOverloaded", "warning", "Overloaded", firing_if(window.overloaded > 0),
                    fmt::format("Refused requests in 5 minutes: {}", window.overloaded)});
  alerts.push_back({"OnceOutOfDescriptors", "critical", "Out of file descriptors",
                    firing_if(window.out_of_descriptors > 0),
                    fmt::format("Failures for lack of descriptors in 5 minutes: {}", window.out_of_descriptors)});
}

void add_limits(std::vector<Alert>& alerts, const std::vector<LimitUse>& limits) {
  std::string near;
  for (const LimitUse& use : limits) {
    if (use.limit == 0 || static_cast<double>(use.used) <= near_limit * static_cast<double>(use.limit)) continue;
    near += fmt::format("{}{} of {}", near.empty() ? "" : "; ", use.used, use.limit);
    near += fmt::format(" ({})", use.name);
  }
  alerts.push_back(
      {"OnceNearLimit", "warning", "Near a limit", firing_if(!near.empty()),
       near.empty() ? fmt::format("Every use is below {:.0f} % of its limit", near_limit * percent) : near});
}

}  // namespace

std::string_view name_of(StoreHealth health) {
  switch (health) {
    case StoreHealth::unasked: return "not asked yet";
    case StoreHealth::up: return "up";
    case StoreHealth::full: return "full";
    case StoreHealth::down: return "down";
    case StoreHealth::failed: return "failed";
  }
  return "";
}

std::string_view name_of(AlertState state) {
  switch (state) {
    case AlertState::quiet: return "quiet";
    case AlertState::idle: return "idle";
    case AlertState::firing: return "firing";
  }
  return "";
}

std::vector<Alert> alerts_of(const AlertFacts& facts) {
  std::vector<Alert> alerts;
  add_store(alerts, facts);
  add_unknown(alerts, facts);
  add_requests(alerts, facts.window);
  add_limits(alerts, facts.limits);
  alerts.push_back({"OnceUpstreamDown", "warning", "Server down", firing_if(facts.servers_down > 0),
                    fmt::format("Servers down: {}", facts.servers_down)});
  alerts.push_back({"OnceUpstreamAllDown", "critical", "Backend down", firing_if(facts.upstreams_down > 0),
                    fmt::format("Upstreams with no server up: {}", facts.upstreams_down)});
  return alerts;
}

}  // namespace once::admin
