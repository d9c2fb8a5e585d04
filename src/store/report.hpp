// What a store reports to operators: metrics for /metrics and limits for the dashboard.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::store {

enum class StoreCondition : std::uint8_t {
  well,
  full,    // new keys are refused for lack of space
  failed,  // nothing is written until a restart
};

struct StoreMetric {
  enum class Type : std::uint8_t { gauge, counter };

  std::string_view name;  // its name on /metrics; stable
  Type type = Type::gauge;
  std::string_view help;
  std::uint64_t value = 0;
};

struct StoreLimit {
  std::string_view setting;  // the setting: "memory.max_bytes"
  std::uint64_t used = 0;
  std::uint64_t limit = 0;
};

struct StoreReport {
  std::vector<StoreMetric> metrics;  // in display order
  std::vector<StoreLimit> limits;

  void gauge(std::string_view name, std::string_view help, std::uint64_t value) {
    metrics.push_back({.name = name, .type = StoreMetric::Type::gauge, .help = help, .value = value});
  }
  void counter(std::string_view name, std::string_view help, std::uint64_t value) {
    metrics.push_back({.name = name, .type = StoreMetric::Type::counter, .help = help, .value = value});
  }
};

}  // namespace once::store
