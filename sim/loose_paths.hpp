// How backends read paths that gateways must not let through: an encoded slash or a backslash is a slash, parameters
// are stripped, dots are resolved last, "//host/path" names a host. Shares no code with core/path.hpp.
#pragma once

#include <string>
#include <string_view>

#include "sim/draw.hpp"

namespace once::sim {

// The folder of a route that requires a key.
inline constexpr std::string_view required_folder = "pay";

// Whether some backend could read this target as a path below that folder.
bool may_be_read_as_required(std::string_view target);

// A target of a client that tries to get there without a key. `caller` makes it unique.
std::string draw_evading_target(Draw& draw, unsigned caller);

}  // namespace once::sim
