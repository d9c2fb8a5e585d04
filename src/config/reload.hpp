// Compares a running configuration with a new one: what a reload can apply, what needs a restart, and which keys would
// be lost.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace once::config {

// Whether a reload takes this process setting over. What belongs to routes and defaults always is.
bool reloads(std::string_view setting);

// The settings that differ and are not taken over, in the order of the reference; the secret among them, if it changed.
// Empty: `wanted` can be served by a process that was started with `running`. Both are prepared.
std::vector<std::string> needs_restart(const Config& running, const Config& wanted);

// Which keys `wanted` makes new, though nobody used them again: what an operation's id is made of has changed, so that
// what was recorded is not found, and a retry of an earlier request is executed again; or its fingerprint has, so that
// such a retry is refused. A sentence for each setting of each route. Both are checked. The secret is not looked at.
std::vector<std::string> forgotten_keys(const Config& running, const Config& wanted);

}  // namespace once::config
