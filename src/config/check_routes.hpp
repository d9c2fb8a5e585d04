// Whether what the routes say, and the policy of each, fits together.
#pragma once

#include "config/findings.hpp"

namespace once {

// Fills in the upstreams of routes, and what follows from all of them together.
void check_routes(Config& config, Findings& out);

}  // namespace once
