// The configuration of a gate: the gateway's file without the settings of sockets, and without features that only a
// gateway has.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include <once/gate.hpp>

#include "config/config.hpp"
#include "config/variables.hpp"

namespace once::gate {

struct GateSettings {
  Config config;                      // prepared and checked
  std::vector<std::string> warnings;  // for the log
};

// The error lists all mistakes, one per line.
std::expected<GateSettings, std::string> read_settings(const Options& options, const Environ& environ);

}  // namespace once::gate
