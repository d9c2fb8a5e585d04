// Compares a running configuration with a new one: what a reload can apply, what needs a restart, and which keys would
// be lost.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace once::config {

// Whether a reload applies a change of this process setting. Settings of routes and defaults are always applied.
bool reloads(std::string_view setting);

// The settings that differ and need a restart, in the order of the reference; includes the secret if it changed.
// Empty: a process started with `running` can reload `wanted`. Both must be prepared.
std::vector<std::string> needs_restart(const Config& running, const Config& wanted);

// The keys that `wanted` changes, in one sentence for each setting of each route. If operation ids change, records
// are not found, and a retry of an earlier request is executed again. If fingerprints change, such a retry is
// refused. Both must be checked. The secret is not compared.
std::vector<std::string> forgotten_keys(const Config& running, const Config& wanted);

}  // namespace once::config
