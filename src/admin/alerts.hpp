// Computes alerts from the state of this process, with the names and thresholds of the Prometheus alert rules. The
// rules check each route over time; this checks the whole gateway now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/samples.hpp"

namespace once::admin {

inline constexpr double most_takeovers = 0.05;
inline constexpr double most_failures = 0.10;
inline constexpr double least_hits = 0.30;
inline constexpr double near_limit = 0.80;
inline constexpr std::chrono::minutes alert_window{5};
inline constexpr std::chrono::minutes unknown_window{15};  // for unknown outcomes
// A rate over fewer events is not meaningful.
inline constexpr std::uint64_t least_executions = 21;
inline constexpr std::uint64_t least_keyed = 101;  // for the hit rate

struct LimitUse {
  std::string_view name;  // the setting's name
  std::uint64_t used = 0;
  std::uint64_t limit = 0;
};

enum class StoreHealth : std::uint8_t { unasked, up, full, down, failed };
std::string_view name_of(StoreHealth health);

struct AlertFacts {
  const Window& window;
  StoreHealth store = StoreHealth::unasked;
  const std::vector<LimitUse>& limits;
  std::uint64_t unknown_outcomes = 0;         // in unknown_window
  std::optional<std::uint64_t> unknown_keys;  // current number; nullopt: not counted yet
  std::size_t servers_down = 0;
  std::size_t upstreams_down = 0;  // upstreams with all servers down
};

enum class AlertState : std::uint8_t {
  quiet,  // no alert
  idle,   // too few events to decide
  firing,
};
std::string_view name_of(AlertState state);

struct Alert {
  std::string_view name;
  std::string_view severity;
  std::string_view title;
  AlertState state;
  std::string detail;
};

std::vector<Alert> alerts_of(const AlertFacts& facts);

}  // namespace once::admin
