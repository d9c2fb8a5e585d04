// Values derived from settings, which have no setting of their own.
#pragma once

#include "config/config.hpp"

namespace once::config {

// Sets them. Call after all files and the command line are read.
void derive(Config& config);

}  // namespace once::config
