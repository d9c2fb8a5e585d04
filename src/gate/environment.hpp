// The environment of the program that the gate is in: secrets and variables of the configuration may be there.
#pragma once

#include "config/variables.hpp"

namespace once::gate {

Environ process_environment();

}  // namespace once::gate
