#include "admin/admin.hpp"

#include "admin/metrics_page.hpp"
#include "core/problem.hpp"
#include "store/store.hpp"

namespace once {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

ServiceResponse problem_response(ProblemKind kind, std::string detail) {
  const Problem answer = problem(kind, std::move(detail));
  return {.status = answer.status, .content_type = "application/problem+json", .body = to_json(answer)};
}

ServiceResponse text(int status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

// co_await: until the reload is done or refused.
struct Reload : ReloadRequest {
  Reload(ReloadPort& the_port, Executor& the_home) : ReloadRequest(the_home), port(the_port) {}

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> the_caller) {
    caller = the_caller;
    run = [](Work& work) { static_cast<Reload&>(work).caller.resume(); };
    port.ask(*this);
  }
  void await_resume() const noexcept {}

  ReloadPort& port;
  std::coroutine_handle<> caller;
};

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

// In Host, by name or number.
bool names_loopback(std::string_view host) {
  const std::string_view name = host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

std::string lines_of(const std::vector<std::string>& lines, std::string_view first) {
  std::string text(first);
  for (const std::string& line : lines) text.append(line).append("\n");
  return text;
}

}  // namespace

Task<ServiceResponse> Admin::handle(const ServiceRequest& request) {
  if (request.head.path == "/v1/reload") {
    ServiceResponse response = co_await reload(request);
    co_return response;
  }
  if (KeysApi::serves(request.head.path)) {
    ServiceResponse response = co_await keys(request);
    co_return response;
  }
  if (request.head.method != Method::get && request.head.method != Method::head) {
    co_return problem_response(ProblemKind::method_not_allowed, "Only GET is served here.");
  }
  const std::string_view path = request.head.path;
  if (path == "/healthz") co_return text(200, "ok\n");
  if (path == "/readyz") {
    ServiceResponse ready = co_await readyz();
    co_return ready;
  }
  if (path == "/metrics") {
    co_return ServiceResponse{
        .status = 200, .content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_page(sources_)};
  }
  co_return problem_response(ProblemKind::not_found,
                             "There are /healthz, /readyz, /metrics, /v1/keys and, for POST, /v1/reload.");
}

Task<ServiceResponse> Admin::reload(const ServiceRequest& request) {
  if (request.head.method != Method::post) {
    co_return problem_response(ProblemKind::method_not_allowed, "A reload is asked for with POST.");
  }
  // A page in somebody's browser can send a POST here, but not with a header of its own; unless its name is made to
  // lead here, and then it is not ours.
  const bool by_page = request.head.find("Origin").has_value() || !names_loopback(request.head.host);
  if (by_page || !request.head.find("Once-Admin")) {
    co_return problem_response(ProblemKind::bad_request, "A reload is asked for with the header Once-Admin: 1.");
  }
  if (!is_loopback(thread_.address())) {
    co_return problem_response(ProblemKind::bad_request,
                               "A reload is asked for at a loopback address only; elsewhere send SIGHUP.");
  }
  Reload reload(sources_.reload, thread_.loop());
  co_await reload;
  if (reload.answer.errors.empty()) co_return text(200, lines_of(reload.answer.warnings, "reloaded\n"));
  Problem refused = problem(ProblemKind::bad_request, lines_of(reload.answer.errors, ""));
  refused.status = 422;
  co_return ServiceResponse{
      .status = refused.status, .content_type = "application/problem+json", .body = to_json(refused)};
}

Task<ServiceResponse> Admin::keys(const ServiceRequest& request) {
  const bool by_page = request.head.find("Origin").has_value() || !names_loopback(request.head.host);
  const bool changes = request.head.method != Method::get;
  if (by_page || (changes && !request.head.find("Once-Admin"))) {
    co_return problem_response(ProblemKind::bad_request, "Keys are changed with the header Once-Admin: 1.");
  }
  if (!is_loopback(thread_.address())) {
    co_return problem_response(ProblemKind::bad_request, "Keys are served at a loopback address only.");
  }
  ServiceResponse response = co_await sources_.keys.handle(request, thread_.loop());
  co_return response;
}

// Ready: not draining, and the store answers.
Task<ServiceResponse> Admin::readyz() {
  if (draining_.load(std::memory_order_relaxed)) co_return text(503, "draining\n");
  Op probe;  // a look-up of an id that nobody has
  co_await sources_.store.run(probe, thread_.loop());
  if (probe.status == OpStatus::failed) co_return text(503, "store: " + probe.error + "\n");
  co_return text(200, "ready\n");
}

}  // namespace once
