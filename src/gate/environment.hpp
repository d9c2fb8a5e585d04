// The environment variables of the host program, which may contain secrets and variables of the configuration.
#pragma once

#include "config/variables.hpp"

namespace once::gate {

Environ process_environment();

}  // namespace once::gate
