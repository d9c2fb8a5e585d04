#include "gateway/connection/cors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/reason.hpp"

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

// The value of the field with this name; empty if it is absent or repeated.
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

// A lookup or a stop names its operation's method in a header value; a preflight lists only header names.
bool is_about_another_request(const http::RequestHead& head) {
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Access-Control-Request-Headers")) continue;
    for (const std::string_view part : split(field.value, ',')) {
      if (same_name(trim(part), "Idempotency-Lookup") || same_name(trim(part), "Idempotency-Stop")) return true;
    }
  }
  return false;
}

void add_list(Fields& fields, FieldName name, const std::vector<std::string_view>& names) {
  std::string& value = fields.begin_value(name);
  for (std::size_t i = 0; i < names.size(); ++i) value.append(i == 0 ? "" : ", ").append(names[i]);
  fields.end_value();
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

void CorsGrant::add_allowed(Fields& fields) const {
  fields.add("Access-Control-Allow-Origin", origin_);
  if (policy_.cors.credentials) fields.add("Access-Control-Allow-Credentials", "true");
}

void CorsGrant::apply(Fields& fields) const {
  Fields kept;
  std::vector<std::string_view> exposed(exposed_by_us.begin(), exposed_by_us.end());
  exposed.push_back(policy_.wording.replay_header);
  bool varies = false;
  for (const Field& field : fields) {
    const bool about_origins =
        field.name.size() > cors_prefix.size() && same_name(field.name.substr(0, cors_prefix.size()), cors_prefix);
    if (same_name(field.name, "Vary")) varies = varies || varies_by_origin(field.value);
    if (allowed() && same_name(field.name, "Access-Control-Expose-Headers")) {
      for (const std::string_view part : split(field.value, ',')) add_name(exposed, trim(part));
    }
    if (!allowed() || !about_origins) kept.add(field);
  }
  if (allowed()) {
    add_allowed(kept);
    add_list(kept, "Access-Control-Expose-Headers", exposed);
  }
  if (!varies) kept.add("Vary", "Origin");
  fields = std::move(kept);
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
  reply.reason = reason_phrase(reply.status);
  Fields& fields = reply.fields;
  CorsGrant(policy, head).add_allowed(fields);
  fields.add("Access-Control-Allow-Methods", method);
  add_list(fields, "Access-Control-Allow-Headers", names);
  fields.add("Access-Control-Max-Age", preflight_seconds);
  fields.add("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers");
  fields.add("X-Request-Id", request_id);
  return Preflight::answered;
}

}  // namespace once::gateway
