// How requests are served, from a prepared configuration: for the gateway and for a gate inside of a program.
#pragma once

#include "config/config.hpp"
#include "gateway/settings.hpp"

namespace once::config {

// limits.max_connections depends on the process, and is left to the caller.
ServingSettings serving_settings(const Config& config);

}  // namespace once::config
