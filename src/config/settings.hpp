// The tables that declare every setting of the process, of an upstream, of a route's policy, and of a route.
#pragma once

#include "config/config.hpp"
#include "config/setting.hpp"

namespace once::config {

const Settings<Config>& process_settings();
// May stand under `defaults:` and in every route.
const Settings<Policy>& policy_settings();
// In a route only.
const Settings<Route>& route_settings();
// In an upstream that is a map and not just a URL.
const Settings<Upstream>& upstream_settings();
// `upstreams` itself, a process setting: NAME and URL.
Setting<Config> upstreams_setting();
// Adds one that has its settings, or replaces the one of that name.
Parsed<void> add_upstream(Config& config, Upstream upstream);

// Letters, digits, - and _: what things that a file makes up may be called.
Parsed<void> check_plain_name(std::string_view name);

// What holds when nothing is set: the dialect ietf.
Policy builtin_policy();
Config builtin_config();

// The settings that a dialect decides, because dialects differ in them. Choosing one leaves all others as they are.
std::vector<const Setting<Policy>*> dialect_settings();

}  // namespace once::config
