// Writes /metrics: all counters of workers, stores and the claims API, added up. docs/reference/metrics.md lists them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gateway/metrics.hpp"

namespace once::admin {

struct AdminSources;
class Exposition;

// In Prometheus' text format 0.0.4.
std::string metrics_page(const AdminSources& sources);

// The part that a gate inside a program also has.
void write_request_metrics(Exposition& out, const std::map<std::string, RouteTotals>& routes,
                           const std::vector<const Metrics*>& workers);

}  // namespace once::admin
