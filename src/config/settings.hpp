// The tables that declare every setting of the process, of an upstream, of a route's policy, and of a route.
#pragma once

#include "config/config.hpp"
#include "config/setting.hpp"

namespace once::config {

const Settings<Config>& process_settings();
// May stand under `defaults:` and in every route.
const Settings<Policy>& policy_settings();
// In routes only.
const Settings<Route>& route_settings();
// In an upstream that is written as a map, not as a URL.
const Settings<Upstream>& upstream_settings();
// `upstreams` itself, a process setting: NAME and URL.
Setting<Config> upstreams_setting();
// Adds an upstream with settings, or replaces the one with its name.
Parsed<void> add_upstream(Config& config, Upstream upstream);

// Names chosen in a file consist of letters, digits, - and _.
Parsed<void> check_plain_name(std::string_view name);

// The policy without settings: that of the dialect ietf.
Policy builtin_policy();
Config builtin_config();

// The settings that differ between dialects. Choosing a dialect changes only these.
std::vector<const Setting<Policy>*> dialect_settings();

}  // namespace once::config
