// Requests that would be one thing here and another at the backend: ways around a route, its key or its caller. Refused
// before anything is forwarded.
#pragma once

#include <optional>
#include <string_view>

#include "core/problem.hpp"
#include "gateway/routes.hpp"
#include "http/head.hpp"

namespace once {

// Why a request is refused whose method or path (`normal` is its normal form) a backend may take for one that another
// route is for. nullopt: it is not.
std::optional<Problem> route_evaded(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head,
                                    std::string_view normal);

}  // namespace once
