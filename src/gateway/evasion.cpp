#include "gateway/evasion.hpp"

#include <fmt/format.h>

#include "core/headers.hpp"
#include "core/path.hpp"

namespace once {

namespace {

// Each of them, and all together: a backend has any of these habits, or several.
bool takes_another_route(const Routes& routes, const RoutedPolicy& routed, Method method, std::string_view normal) {
  for (unsigned habits = 1; habits < 8; ++habits) {
    const Reading reading{
        .encoded_slashes = (habits & 1U) != 0, .backslashes = (habits & 2U) != 0, .parameters = (habits & 4U) != 0};
    const auto read = reread(normal, reading);
    if (!read) continue;
    if (!*read) return true;
    const RoutedPolicy other = routes.find(method, **read);
    if (other.policy != nullptr && other.index != routed.index) return true;
  }
  return false;
}

}  // namespace

std::optional<Problem> route_evaded(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head,
                                    std::string_view normal) {
  if (head.method == Method::other && misspells_method(head.method_text)) {
    return problem(ProblemKind::bad_request, "Methods are written in capitals.");
  }
  const bool plain = normal.find_first_of("%;\\") == std::string_view::npos;
  if (!plain && takes_another_route(routes, routed, head.method, normal)) {
    return problem(
        ProblemKind::bad_request,
        "The path contains an encoded slash, a backslash or a semicolon and could be taken for another one.");
  }
  return std::nullopt;
}

}  // namespace once
