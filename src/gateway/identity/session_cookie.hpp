// The prefix of the dashboard's session cookies. Browsers send a cookie to every port of its host, so one set by the
// admin interface also reaches the gateway, and must not be forwarded to a backend.
#pragma once

#include <string_view>

#include "base/layers.hpp"

namespace once::gateway {

inline constexpr std::string_view session_cookie = "once_admin_session";

}  // namespace once::gateway
