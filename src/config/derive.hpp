// Values that follow from settings, and so are none themselves.
#pragma once

#include "config/config.hpp"

namespace once::config {

// Fills them in. The settings are complete: of all files, and of the command line.
void derive(Config& config);

}  // namespace once::config
