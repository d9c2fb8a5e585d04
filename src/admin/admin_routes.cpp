// The paths of the admin interface. A new endpoint is a handler in Admin and a row here; docs/operate/dashboard.md has
// the same rows, and a test compares them with GET /v1.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/admin.hpp"
#include "admin/keys_answers.hpp"
#include "core/json_text.hpp"
#include "core/problem.hpp"

namespace once::admin {

using http::ServiceRequest;
using http::ServiceResponse;

const std::vector<Admin::Route>& Admin::routes() {
  using enum Route::Access;
  using enum Route::Methods;
  static const std::vector<Route> table = {
      {"/healthz", health, read, &Admin::healthz, "200 while the process runs"},
      {"/readyz", health, read, &Admin::readyz, "200 when it should get requests, else 503"},
      {"/metrics", data, read, &Admin::metrics, "metrics for Prometheus"},
      {"/v1", data, read, &Admin::overview, "this list, as JSON"},
      {"/v1/stats", data, read, &Admin::stats, "what the dashboard shows, as JSON"},
      {"/v1/history", data, read, &Admin::history, "the points of the charts, as JSON"},
      {"/v1/events", data, read, &Admin::events, "both of them as server-sent events"},
      {"/v1/keys", data, both, &Admin::keys, "keys: list, look up, settle", Route::Match::below},
      {"/v1/streams", data, read, &Admin::streams, "responses that stream now, as JSON"},
      {"/v1/login", open, change, &Admin::login, "a session in exchange for the token"},
      {"/v1/logout", open, change, &Admin::logout, "the end of a session"},
      {"/v1/reload", data, change, &Admin::reload, "reads the configuration again"},
  };
  return table;
}

namespace {

std::string_view allowed(bool reads, bool changes) {
  if (reads && changes) return "GET, HEAD, POST";
  return reads ? "GET, HEAD" : "POST";
}

}  // namespace

bool Admin::Route::takes(Method method) const {
  const bool reads = method == Method::get || method == Method::head;
  return (reads && methods != Methods::change) || (method == Method::post && methods != Methods::read);
}

const Admin::Route* Admin::route_of(std::string_view path) {
  const auto found = std::ranges::find_if(routes(), [path](const Route& route) {
    if (path == route.path) return true;
    return route.match == Route::Match::below && path.starts_with(route.path) && path[route.path.size()] == '/';
  });
  return found == routes().end() ? nullptr : &*found;
}

ServiceResponse Admin::unknown_path() {
  std::string detail = "There is nothing at this path. The admin interface has the dashboard at /";
  for (const Route& route : routes()) fmt::format_to(std::back_inserter(detail), ", {}", route.path);
  return refused_key(ProblemKind::not_found, detail + ".");
}

ServiceResponse Admin::wrong_method(const Route& route) {
  const std::string_view methods = allowed(route.takes(Method::get), route.takes(Method::post));
  return admin::wrong_method(methods, fmt::format("{} takes {}.", route.path, methods));
}

Task<ServiceResponse> Admin::overview(const ServiceRequest& /*request*/) {
  std::string json = "[";
  for (const Route& route : routes()) {
    json += json.size() > 1 ? ",\n" : "";
    fmt::format_to(std::back_inserter(json), R"({{"path": "{}", "methods": "{}", "token": {}, "answer": )", route.path,
                   allowed(route.takes(Method::get), route.takes(Method::post)), route.access == Route::Access::data);
    append_json_string(json, route.answer);
    json += '}';
  }
  co_return ServiceResponse{.content_type = "application/json", .body = json + "]\n"};
}

}  // namespace once::admin
