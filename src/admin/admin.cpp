#include "admin/admin.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "admin/metrics_page.hpp"
#include "admin/page.hpp"
#include "admin/stats.hpp"
#include "admin/streams_json.hpp"
#include "core/problem.hpp"
#include "store/exclusive.hpp"
#include "store/store.hpp"

namespace once::admin {

using http::ServiceRequest;
using http::ServiceResponse;

namespace {

ServiceResponse problem_response(ProblemKind kind, std::string detail) {
  const Problem answer = problem(kind, std::move(detail));
  return {.status = answer.status, .content_type = "application/problem+json", .body = to_json(answer)};
}

// Once-Admin shows commands that they reached the admin interface and not the listener for clients. The other fields
// are for browsers: only the dashboard's own files, no frames, no guessing of types, no caching of data.
constexpr std::string_view common_fields =
    "Once-Admin: 1\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n"
    "X-Frame-Options: DENY\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'\r\n";
constexpr std::string_view not_cached = "Cache-Control: no-store\r\n";
constexpr std::string_view revalidated = "Cache-Control: no-cache\r\n";

constexpr Duration readiness_age = std::chrono::seconds(1);
constexpr Duration readiness_look = std::chrono::milliseconds(5);

// The body limit of requests without authorisation, such as a login.
constexpr std::size_t open_body = 4096;

ServiceResponse json_response(std::string body) {
  return {.content_type = "application/json", .body = std::move(body)};
}

ServiceResponse with_common_fields(ServiceResponse response, std::string_view path) {
  const bool is_page = page_file(path) != nullptr;
  response.fields.append(common_fields).append(is_page ? revalidated : not_cached);
  return response;
}

ServiceResponse text(int status, std::string body) {
  return {.status = status, .body = std::move(body)};
}

// co_await: resumes when the reload is done or refused.
struct Reload : ReloadRequest {
  Reload(ReloadPort& the_port, Executor& the_home, ReloadKind the_kind)
      : ReloadRequest(the_home, the_kind), port(the_port) {}

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

std::string lines_of(const std::vector<std::string>& lines, std::string_view first) {
  std::string text(first);
  for (const std::string& line : lines) text.append(line).append("\n");
  return text;
}

}  // namespace

Admin::Admin(std::string listen, std::string_view token, const AdminSources& sources)
    : listen_(std::move(listen)),
      sources_(sources),
      access_(token, sources.log),
      stats_(std::make_unique<Stats>(sources_, access_.needs_token(), monotonic_now())),
      store_probe_(sources.store),
      readiness_(sources_) {
  sampler_.admin = this;
  sampler_.run = [](Work& work) { static_cast<Sampler&>(work).admin->sample(); };
  sampler_.fire = [](Timer& timer) { static_cast<Sampler&>(timer).admin->sample(); };
}

Admin::~Admin() {
  sources_.keys.stop();
  thread_.stop();
  if (sampler_.armed()) thread_.loop().disarm(sampler_);
}

Result<void> Admin::start(const std::vector<int>& inherited) {
  if (auto fit = sources_.keys.check(); !fit) return fit;
  const auto check = [this](std::string_view address) { return begin_at(address); };
  if (auto started = thread_.start(listen_, inherited, check); !started) return started;
  thread_.loop().post(sampler_);
  return {};
}

// An inherited socket may listen on another address than the configured one, and connections may already wait in it.
Result<void> Admin::begin_at(std::string_view address) {
  if (!access_.needs_token() && !is_loopback(address)) {
    return std::unexpected(
        Error{ErrorSource::config, Retryable::no,
              fmt::format("the admin interface would listen on {}, so admin_token is required", address)});
  }
  access_.listens_at(address);
  return {};
}

void Admin::sample() {
  stats_->sample(monotonic_now());
  readiness_.look(monotonic_now());
  sources_.log.report_left_out();
  thread_.loop().arm(sampler_, History::interval);
}

http::Admission Admin::admit(const ServiceRequest& request) {
  const std::string_view path = request.head.path;
  const Route* route = route_of(path);
  const auto access = page_file(path) != nullptr ? Route::Access::open
                      : route != nullptr         ? route->access
                                                 : Route::Access::data;
  if (access == Route::Access::health && route->takes(request.head.method)) return {.max_body = open_body};
  const bool open = access == Route::Access::open;
  const auto what = open ? AdminAccess::What::open : AdminAccess::What::data;
  auto refused = access_.refuse(request, what, monotonic_now());
  if (refused) return {.refusal = with_common_fields(*std::move(refused), path)};
  return {.max_body = open ? open_body : SIZE_MAX};
}

Task<ServiceResponse> Admin::handle(const ServiceRequest& request) {
  ServiceResponse response = co_await answer(request);
  co_return with_common_fields(std::move(response), request.head.path);
}

// Answers a request that was admitted.
Task<ServiceResponse> Admin::answer(const ServiceRequest& request) {
  if (const PageFile* page = page_file(request.head.path)) {
    static constexpr Route pages{
        .path = "/", .access = Route::Access::open, .methods = Route::Methods::read, .handler = nullptr, .answer = {}};
    if (!pages.takes(request.head.method)) co_return wrong_method(pages);
    co_return ServiceResponse{.content_type = std::string(page->type), .body = std::string(page->text)};
  }
  const Route* route = route_of(request.head.path);
  if (route == nullptr) co_return unknown_path();
  if (!route->takes(request.head.method)) co_return wrong_method(*route);
  ServiceResponse response = co_await (this->*route->handler)(request);
  co_return response;
}

Task<ServiceResponse> Admin::healthz(const ServiceRequest& /*request*/) {
  co_return text(200, "ok\n");
}

Task<ServiceResponse> Admin::metrics(const ServiceRequest& /*request*/) {
  co_return ServiceResponse{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = metrics_page(sources_)};
}

Task<ServiceResponse> Admin::stats(const ServiceRequest& /*request*/) {
  co_return json_response(stats_->snapshot(monotonic_now(), draining_));
}

Task<ServiceResponse> Admin::history(const ServiceRequest& /*request*/) {
  co_return json_response(stats_->history());
}

Task<ServiceResponse> Admin::events(const ServiceRequest& request) {
  if (stats_->listeners() == Stats::most_listeners) {
    co_return problem_response(ProblemKind::overloaded,
                               "Too many clients are connected to this event stream. Retry later.");
  }
  auto stream = std::make_shared<EventStream>(*stats_, draining_, access_.pass(request));
  co_return ServiceResponse{.content_type = "text/event-stream", .stream = std::move(stream)};
}

Task<ServiceResponse> Admin::keys(const ServiceRequest& request) {
  ServiceResponse response = co_await sources_.keys.handle(request, thread_.loop());
  if (request.head.method == Method::post && response.status == 400)
    access_.log_refusal(request, "bad request", monotonic_now());
  co_return response;
}

Task<ServiceResponse> Admin::streams(const ServiceRequest& /*request*/) {
  co_return json_response(streams_json(sources_.gateway.streams()));
}

Task<ServiceResponse> Admin::login(const ServiceRequest& request) {
  co_return access_.login(request, monotonic_now());
}

Task<ServiceResponse> Admin::logout(const ServiceRequest& request) {
  co_return access_.logout(request);
}

Task<ServiceResponse> Admin::reload(const ServiceRequest& request) {
  const std::string_view query =
      request.head.target.substr(std::min(request.head.target.find('?'), request.head.target.size()));
  if (!query.empty() && query != "?dry_run=1") {
    co_return problem_response(ProblemKind::parameter_invalid, "The only parameter is dry_run=1.");
  }
  const ReloadKind kind = query.empty() ? ReloadKind::real : ReloadKind::dry_run;
  Reload reload(sources_.reload, thread_.loop(), kind);
  co_await reload;
  const std::string_view done =
      kind == ReloadKind::real ? "reloaded\n" : "the configuration is valid; nothing was changed\n";
  if (reload.answer.errors.empty()) co_return text(200, lines_of(reload.answer.warnings, done));
  Problem refused = problem(ProblemKind::bad_request, lines_of(reload.answer.errors, ""));
  refused.status = 422;
  co_return ServiceResponse{
      .status = refused.status, .content_type = "application/problem+json", .body = to_json(refused)};
}

// Ready: not draining, and every check of readyz.checks passes. Public, so the answer has no details, is cached for a
// second, and does not wait for a store that hangs longer than the probe.
Task<ServiceResponse> Admin::readyz(const ServiceRequest& /*request*/) {
  if (draining_.load(std::memory_order_relaxed)) co_return text(503, "draining\n");
  // Ready during a handover, too: new connections wait in the listening socket, but not for long.
  const Exclusive* const exclusive = sources_.store.store().exclusive();
  if (exclusive != nullptr && exclusive->handed_over()) co_return text(200, "handing over\n");
  const std::string_view wrong = readiness_.wrong(monotonic_now());
  log_checks(wrong);
  if (!wrong.empty()) co_return text(503, std::string(wrong) + "\n");
  if (!readiness_.asks_store()) co_return text(200, "ready\n");
  store_probe_.ask(monotonic_now(), readiness_age);
  while (store_probe_.undecided(monotonic_now())) co_await sleep_for(thread_.loop(), readiness_look);
  const StoreProbe::State state = store_probe_.state(monotonic_now());
  log_store_state(state);
  co_return state == StoreProbe::State::up ? text(200, "ready\n") : text(503, "store down\n");
}

void Admin::log_checks(std::string_view wrong) {
  if (wrong == wrong_) return;
  wrong_ = wrong;
  if (wrong.empty()) {
    sources_.log.info("ready again", {});
  } else {
    sources_.log.warn("not ready", {{"why", wrong}});
  }
}

void Admin::log_store_state(StoreProbe::State state) {
  const StoreProbe::State before = std::exchange(reported_, state);
  if (state == before) return;
  if (state == StoreProbe::State::up && before == StoreProbe::State::down)
    sources_.log.info("ready again, the store answers", {});
  if (state != StoreProbe::State::down) return;
  sources_.log.warn("not ready, the store is down", {{"error", store_probe_.error()}});
}

}  // namespace once::admin
