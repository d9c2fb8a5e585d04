// Checks each route and its policy for contradictions.
#pragma once

#include "config/findings.hpp"

namespace once::config {

// Fills in the upstreams of routes, and the values that depend on all routes.
void check_routes(Config& config, Findings& out);

}  // namespace once::config
