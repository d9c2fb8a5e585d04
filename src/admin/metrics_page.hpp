// Writes /metrics: all counters of workers, stores and the claims API, added up. docs/metrics.md lists them.
#pragma once

#include <string>

#include "base/layers.hpp"

namespace once::admin {

struct AdminSources;

// In Prometheus' text format 0.0.4.
std::string metrics_page(const AdminSources& sources);

}  // namespace once::admin
