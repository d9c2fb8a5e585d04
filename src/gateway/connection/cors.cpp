#include "gateway/connection/cors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::gateway {

namespace {

constexpr std::string_view cors_prefix = "Access-Control-";
// Response fields that scripts may only read if they are exposed, besides the route's replay header.
constexpr std::array exposed_by_us = {std::string_view("Idempotency-Status"),  std::string_view("Original-Request-Id"),
                                      std::string_view("Idempotency-Expires"), std::string_view("Idempotency-Attempt"),
                                      std::string_view("Idempotency-Offset"),  std::string_view("Idempotency-Stopped"),
                                      std::string_view("X-Request-Id"),        std::string_view("Retry-After"),
                                      std::string_view("X-Should-Retry"),      std::string_view("ETag")};
constexpr std::size_t most_asked_headers = 100;
constexpr std::uint64_t preflight_seconds = 600;  // that a browser may cache the answer

bool is_token(std::string_view text) {
  static constexpr std::string_view separators = "\"(),/:;<=>?@[\\]{}";
  const auto good = [](char c) { return c > ' ' && c < 0x7F && !separators.contains(c); };
  return !text.empty() && std::ranges::all_of(text, good);
}

// The value of that field; empty if it is absent or repeated.
std::string_view single(const http::RequestHead& head, std::string_view name) {
  std::string_view value;
  std::size_t count = 0;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, name)) continue;
    value = field.value;
    ++count;
  }
  return count == 1 ? value : std::string_view();
}

void add_name(std::vector<std::string_view>& names, std::string_view name) {
  const bool listed = std::ranges::any_of(names, [name](std::string_view other) { return same_name(name, other); });
  if (!name.empty() && !listed) names.push_back(name);
}

// A lookup or a stop names its operation's method in a header value, which preflights do not show.
bool is_about_another_request(const http::RequestHead& head) {
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Access-Control-Request-Headers")) continue;
    for (const std::string_view part : split(field.value, ',')) {
      if (same_name(trim(part), "Idempotency-Lookup") || same_name(trim(part), "Idempotency-Stop")) return true;
    }
  }
  return false;
}

void append_list(std::string& out, std::string_view field, const std::vector<std::string_view>& names) {
  out.append(field).append(": ");
  for (std::size_t i = 0; i < names.size(); ++i) out.append(i == 0 ? "" : ", ").append(names[i]);
  out.append("\r\n");
}

bool varies_by_origin(std::string_view value) {
  return std::ranges::any_of(
      split(value, ','), [](std::string_view part) { return trim(part) == "*" || same_name(trim(part), "Origin"); });
}

}  // namespace

CorsGrant::CorsGrant(const Policy& policy, const http::RequestHead& head) : policy_(policy) {
  const std::string_view origin = single(head, "Origin");
  if (origin.empty()) return;
  for (const std::string& named : policy.cors.origins) {
    if (named == "*" || named == origin) origin_ = named;
  }
}

void CorsGrant::append_allowed(std::string& head) const {
  head.append("Access-Control-Allow-Origin: ").append(origin_).append("\r\n");
  if (policy_.cors.credentials) head.append("Access-Control-Allow-Credentials: true\r\n");
}

void CorsGrant::apply(std::string& head) const {
  std::string with_cors;
  with_cors.reserve(head.size() + 512);
  std::vector<std::string_view> exposed(exposed_by_us.begin(), exposed_by_us.end());
  exposed.push_back(policy_.wording.replay_header);
  bool varies = false;
  std::string_view rest = head;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\r\n"), rest.size() - 2) + 2;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    const std::size_t colon = std::min(line.find(':'), line.size());
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = colon < line.size() ? trim(line.substr(colon + 1)) : std::string_view();
    const bool about_origins =
        name.size() > cors_prefix.size() && same_name(name.substr(0, cors_prefix.size()), cors_prefix);
    if (same_name(name, "Vary")) varies = varies || varies_by_origin(value);
    if (allowed() && same_name(name, "Access-Control-Expose-Headers")) {
      for (const std::string_view part : split(value, ',')) add_name(exposed, trim(part));
    }
    if (!allowed() || !about_origins) with_cors.append(line);
  }
  if (allowed()) {
    append_allowed(with_cors);
    append_list(with_cors, "Access-Control-Expose-Headers", exposed);
  }
  if (!varies) with_cors.append("Vary: Origin\r\n");
  head = std::move(with_cors);
}

bool is_preflight(const http::RequestHead& head) {
  return head.method == Method::options && head.find("Origin") && head.find("Access-Control-Request-Method");
}

std::string_view preflight_method(const http::RequestHead& head) {
  return single(head, "Access-Control-Request-Method");
}

std::span<const Method> preflight_routes(const http::RequestHead& head, Method& asked) {
  static constexpr std::array operations = {Method::post, Method::put, Method::patch, Method::delete_};
  if (is_about_another_request(head)) return operations;
  asked = parse_method(preflight_method(head));
  return {&asked, 1};
}

Preflight answer_preflight(const Policy& policy, const http::RequestHead& head, std::string_view request_id,
                           Reply& reply) {
  const std::string_view method = preflight_method(head);
  if (!is_token(method)) return Preflight::malformed;
  std::vector<std::string_view> names;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Access-Control-Request-Headers")) continue;
    for (const std::string_view part : split(field.value, ',')) {
      const std::string_view name = trim(part);
      if (name.empty()) continue;
      if (!is_token(name) || names.size() >= most_asked_headers) return Preflight::malformed;
      add_name(names, name);
    }
  }
  add_name(names, policy.key.header);
  reply.reset();
  reply.status = 204;
  reply.ending = Ending::passed;
  std::string& out = reply.head;
  out.append("HTTP/1.1 204 No Content\r\n");
  CorsGrant(policy, head).append_allowed(out);
  out.append("Access-Control-Allow-Methods: ").append(method).append("\r\n");
  append_list(out, "Access-Control-Allow-Headers", names);
  out.append("Access-Control-Max-Age: ");
  append_number(out, preflight_seconds);
  out.append("\r\nVary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n");
  out.append("X-Request-Id: ").append(request_id).append("\r\n");
  return Preflight::answered;
}

}  // namespace once::gateway
