// What the system knows of this process, under the names that every Prometheus dashboard knows.
#pragma once

#include "base/clock.hpp"

namespace once {

class Exposition;

void write_process_metrics(Exposition& out, Time started_at);

}  // namespace once
