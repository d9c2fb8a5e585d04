// How names of the dashboard's session cookies begin. A browser sends a cookie to every port of its host: one that was
// set by the admin interface comes to the gateway, too, and must not go on to a backend.
#pragma once

#include <string_view>

#include "base/layers.hpp"

namespace once::gateway {

inline constexpr std::string_view session_cookie = "once_admin_session";

}  // namespace once::gateway
