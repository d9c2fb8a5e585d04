#include "admin/access.hpp"

#include <array>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/json_tree.hpp"
#include "core/problem.hpp"
#include "gateway/identity/session_cookie.hpp"

namespace once::admin {

using http::RequestHead;
using http::ServiceRequest;
using http::ServiceResponse;

namespace {

constexpr std::string_view bearer = "Bearer ";
constexpr std::string_view no_token = "no token";

ServiceResponse access_refusal(ProblemKind kind, std::string detail) {
  const Problem answer = problem(kind, std::move(detail));
  ServiceResponse response{
      .status = answer.status, .content_type = "application/problem+json", .body = to_json(answer)};
  if (kind == ProblemKind::unauthorized) response.fields = "WWW-Authenticate: Bearer realm=\"once\"\r\n";
  return response;
}

ServiceResponse too_many_tries() {
  Problem answer = problem(ProblemKind::unauthorized, "This address sent too many wrong tokens. Retry after a minute.");
  answer.status = 429;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(FailedLogins::window).count();
  return {.status = answer.status,
          .content_type = "application/problem+json",
          .body = to_json(answer),
          .fields = fmt::format("Retry-After: {}\r\n", seconds)};
}

// The host without its port.
std::string_view name_in(std::string_view host) {
  return host.substr(0, host.starts_with('[') ? host.find(']') + 1 : host.find(':'));
}

bool names_loopback(std::string_view host) {
  const std::string_view name = name_in(host);
  return iequals(name, "localhost") || name == "127.0.0.1" || name == "[::1]";
}

// Behind a TLS proxy the scheme differs; a page on the same host and port is still the dashboard's own.
bool is_own(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {std::string_view("http://"), std::string_view("https://")}) {
    if (origin.starts_with(scheme) && iequals(origin.substr(scheme.size()), host)) return true;
  }
  return false;
}

// The value of the field with this name; nullopt if it is missing or repeated.
std::optional<std::string_view> single(const RequestHead& head, std::string_view name) {
  std::optional<std::string_view> found;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    if (found) return std::nullopt;
    found = field.value;
  }
  return found;
}

std::optional<std::string_view> bearer_of(const RequestHead& head) {
  const auto given = single(head, "Authorization");
  if (!given || !iequals(given->substr(0, bearer.size()), bearer)) return std::nullopt;
  return trim(given->substr(bearer.size()));
}

bool changes(const RequestHead& head) {
  return head.method != Method::get && head.method != Method::head;
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address.starts_with("[::1]");
}

AdminAccess::AdminAccess(std::string_view token, const Log& log) : needs_token_(!token.empty()), log_(log) {
  if (needs_token_) token_ = digest_of(token);
}

void AdminAccess::listens_at(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon != std::string_view::npos) cookie_name_ = fmt::format("{}_{}", session_cookie, address.substr(colon + 1));
}

std::optional<ServiceResponse> AdminAccess::refuse(const ServiceRequest& request, What what, Instant now) {
  auto refusal = why_not(request, what, now);
  if (!refusal) return std::nullopt;
  // A browser without a token gets a 401 and then asks its user for one. That is normal, so do not log it.
  const bool only_asked = refusal->reason == no_token && !changes(request.head);
  if (!only_asked) log_refusal(request, refusal->reason, now);
  return std::move(refusal->response);
}

void AdminAccess::log_refusal(const ServiceRequest& request, std::string_view reason, Instant now) {
  const auto left_out = lines_.allow(request.peer, now);
  if (!left_out) return;
  // The rest of the path is an id, or may be a raw key: do not log it.
  constexpr std::string_view keys = "/v1/keys/";
  const std::string_view path = request.head.path.starts_with(keys) ? keys : request.head.path;
  log_.warn("admin refused", {{"peer", request.peer},
                              {"reason", reason},
                              {"method", request.head.method_text},
                              {"path", path},
                              {"left_out", *left_out}});
}

std::optional<AdminAccess::Refusal> AdminAccess::why_not(const ServiceRequest& request, What what, Instant now) {
  const RequestHead& head = request.head;
  if (!needs_token_ && !names_loopback(head.host)) {
    return Refusal("another host's name", access_refusal(ProblemKind::forbidden,
                                                         "Without admin_token the admin interface answers only to "
                                                         "the host names localhost, 127.0.0.1 and [::1]."));
  }
  if (auto page = by_a_page(head, what)) return page;
  if (changes(head) && single(head, "Once-Admin") != "1") {
    return Refusal("no Once-Admin", access_refusal(ProblemKind::parameter_invalid,
                                                   "A request that changes something needs the header Once-Admin: 1."));
  }
  if (what == What::open || !needs_token_) return std::nullopt;
  return without_token(request, now);
}

// Checks the fields in which browsers name the page that sends a request. Any page may link to the dashboard.
std::optional<AdminAccess::Refusal> AdminAccess::by_a_page(const RequestHead& head, What what) const {
  for (const http::Field& field : head.fields) {
    const bool foreign = same_name(field.name, "Origin") && !is_own(field.value, head.host);
    const bool from_elsewhere =
        same_name(field.name, "Sec-Fetch-Site") && field.value != "same-origin" && field.value != "none";
    if (foreign || (what == What::data && from_elsewhere)) {
      return Refusal("a page of another origin",
                     access_refusal(ProblemKind::forbidden, "Pages of other origins cannot use the admin interface."));
    }
  }
  return std::nullopt;
}

bool AdminAccess::shows_token(const RequestHead& head) const {
  const auto given = bearer_of(head);
  return given && same_digest(digest_of(*given), token_);
}

std::optional<AdminAccess::Refusal> AdminAccess::without_token(const ServiceRequest& request, Instant now) {
  const RequestHead& head = request.head;
  const std::string_view session = session_of(head);
  if (!session.empty() && sessions_.known(session, now)) return std::nullopt;
  if (const auto token = bearer_of(head)) return refuse_token(*token, request.peer, now);
  return Refusal(no_token,
                 access_refusal(ProblemKind::unauthorized,
                                "Send Authorization: Bearer with the admin_token, or log in at the dashboard."));
}

std::optional<AdminAccess::Refusal> AdminAccess::refuse_token(std::string_view token, std::string_view peer,
                                                              Instant now) {
  if (failed_.barred(peer, now)) return Refusal("too many wrong tokens", too_many_tries());
  if (same_digest(digest_of(token), token_)) return std::nullopt;
  failed_.add(peer, now);
  return Refusal("wrong token", access_refusal(ProblemKind::unauthorized, "The token is not the admin_token."));
}

// A token stays valid as long as the process runs.
std::function<bool(Instant)> AdminAccess::pass(const ServiceRequest& request) const {
  if (!needs_token_ || shows_token(request.head)) return [](Instant) { return true; };
  return [this, session = std::string(session_of(request.head))](Instant now) { return sessions_.known(session, now); };
}

std::string_view AdminAccess::session_of(const RequestHead& head) const {
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Cookie")) continue;
    for (const std::string_view part : split(field.value, ';')) {
      const std::string_view pair = trim(part);
      const std::size_t equals = pair.find('=');
      if (equals != std::string_view::npos && pair.substr(0, equals) == cookie_name_) return pair.substr(equals + 1);
    }
  }
  return {};
}

// Not Secure, because the interface itself speaks plain HTTP. Scripts cannot read the cookie, and pages of other sites
// cannot send it.
ServiceResponse AdminAccess::cookie(std::string_view id, std::chrono::seconds age) const {
  return {.status = 204,
          .fields = fmt::format("Set-Cookie: {}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict\r\n", cookie_name_,
                                id, age.count())};
}

ServiceResponse AdminAccess::login(const ServiceRequest& request, Instant now) {
  if (!needs_token_)
    return access_refusal(ProblemKind::parameter_invalid, "There is no admin_token, so no login is needed.");
  const auto body = JsonTree::parse(request.body);
  const JsonTree* member = body ? body->find("token") : nullptr;
  const std::string* token = member != nullptr ? member->string() : nullptr;
  if (token == nullptr) return access_refusal(ProblemKind::parameter_invalid, R"(The body must be {"token": "…"}.)");
  if (auto refused = refuse_token(*token, request.peer, now)) {
    log_refusal(request, refused->reason, now);
    return std::move(refused->response);
  }
  return cookie(sessions_.begin(random_, now), Sessions::lifetime);
}

ServiceResponse AdminAccess::logout(const ServiceRequest& request) {
  sessions_.end(session_of(request.head));
  return cookie("", std::chrono::seconds(0));
}

}  // namespace once::admin
