// Converts a prepared configuration to the settings of serving, for the gateway and for a gate inside of a program.
#pragma once

#include "config/config.hpp"
#include "gateway/settings.hpp"

namespace once::config {

// Without limits.max_connections, which depends on the process; the caller sets it.
ServingSettings serving_settings(const Config& config);

}  // namespace once::config
