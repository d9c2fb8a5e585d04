// The reference documentation of all settings, made from the settings tables.
#pragma once

#include <string>

#include "base/layers.hpp"

namespace once::config {

// docs/reference/configuration/README.md
std::string reference_markdown();

// Every setting with its default and what it is for, as a configuration file; reading it changes nothing.
std::string reference_yaml();

}  // namespace once::config
