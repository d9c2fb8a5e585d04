// The configuration of a gate: the gateway's file, without what is about sockets, and without what only a gateway can
// do.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include <once/gate.hpp>

#include "config/config.hpp"
#include "config/variables.hpp"

namespace once::gate {

struct GateSettings {
  Config config;                      // finished
  std::vector<std::string> warnings;  // for the log
};

// Every mistake, one a line.
std::expected<GateSettings, std::string> read_settings(const Options& options, const Environ& environ);

}  // namespace once::gate
