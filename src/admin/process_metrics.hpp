// Metrics about this process from the system, under the standard Prometheus names.
#pragma once

#include "base/clock.hpp"

namespace once::admin {

class Exposition;

void write_process_metrics(Exposition& out, Time started_at);

}  // namespace once::admin
