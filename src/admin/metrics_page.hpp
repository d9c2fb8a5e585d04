// What /metrics serves: everything that workers, stores and the claims API count, added up. docs/metrics.md lists it.
#pragma once

#include <string>

namespace once {

struct AdminSources;

// In Prometheus' text format 0.0.4.
std::string metrics_page(const AdminSources& sources);

}  // namespace once
