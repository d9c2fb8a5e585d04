// The tables: every setting of the process, of a route's policy, and of a route itself, declared once.
#pragma once

#include "config/config.hpp"
#include "config/setting.hpp"

namespace once {

const Settings<Config>& process_settings();
// May stand under `defaults:` and in every route.
const Settings<Policy>& policy_settings();
// In a route only.
const Settings<Route>& route_settings();

// What holds when nothing is set: the dialect ietf.
Policy builtin_policy();
Config builtin_config();

// The settings that a dialect decides, because dialects differ in them. Choosing one leaves all others as they are.
std::vector<const Setting<Policy>*> dialect_settings();

}  // namespace once
