#include "core/headers.hpp"

#include <algorithm>
#include <cstddef>

namespace once::core {

namespace {

// `lower_case` is a literal as long as `name`: the callers have switched on the length.
bool is(std::string_view name, std::string_view lower_case) {
  for (std::size_t i = 0; i < lower_case.size(); ++i) {
    if (to_lower(name[i]) != lower_case[i]) return false;
  }
  return true;
}

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (to_lower(a[i]) != to_lower(b[i])) return false;
  }
  return true;
}

bool is_hop_by_hop(std::string_view name) {
  switch (name.size()) {
    case 2: return is(name, "te");
    case 7: return is(name, "trailer") || is(name, "upgrade");
    case 10: return is(name, "connection") || is(name, "keep-alive");
    case 16: return is(name, "proxy-connection");
    case 17: return is(name, "transfer-encoding");
    case 18: return is(name, "proxy-authenticate");
    case 19: return is(name, "proxy-authorization");
    default: return false;
  }
}

bool named_in_connection(std::string_view connection_value, std::string_view name) {
  if (name.empty()) return false;
  while (!connection_value.empty()) {
    const std::size_t comma = connection_value.find(',');
    if (same_name(trimmed(connection_value.substr(0, comma)), name)) return true;
    if (comma == std::string_view::npos) return false;
    connection_value.remove_prefix(comma + 1);
  }
  return false;
}

bool is_reserved_response_header(std::string_view name) {
  switch (name.size()) {
    case 18: return is(name, "idempotency-status") || is(name, "idempotency-policy") || is(name, "idempotency-offset");
    case 19:
      return is(name, "idempotent-replayed") || is(name, "idempotency-expires") || is(name, "idempotency-stopped") ||
             is(name, "idempotency-attempt") || is(name, "original-request-id");
    case 20: return is(name, "idempotency-replayed");
    case 24: return is(name, "idempotency-request-body");
    default: return false;
  }
}

bool same_variable(std::string_view a, std::string_view b) {
  const auto dashed = [](char c) { return c == '_' ? '-' : to_lower(c); };
  return a.size() == b.size() && std::ranges::equal(a, b, [dashed](char x, char y) { return dashed(x) == dashed(y); });
}

bool is_reserved_request_header(std::string_view name) {
  switch (name.size()) {
    case 17: return same_variable(name, "idempotency-fence") || same_variable(name, "idempotency-claim");
    case 19: return same_variable(name, "idempotency-attempt");
    default: return false;
  }
}

bool is_resume_header(std::string_view name) {
  switch (name.size()) {
    case 13: return is(name, "last-event-id");
    case 18: return is(name, "idempotency-offset");
    default: return false;
  }
}

bool is_stored(std::string_view name, const RecordPolicy& policy) {
  switch (name.size()) {
    case 4:
      if (is(name, "date")) return false;
      break;
    case 10:
      if (is(name, "set-cookie")) return policy.set_cookie == SetCookie::keep;
      break;
    case 12:
      if (is(name, "x-request-id")) return false;
      break;
    case 14:
      if (is(name, "content-length")) return false;
      break;
    default: break;
  }
  if (is_hop_by_hop(name) || is_reserved_response_header(name)) return false;
  return std::ranges::none_of(policy.drop_headers, [&](std::string_view dropped) { return same_name(name, dropped); });
}

bool may_have_length(int status) {
  return status >= 200 && status != 204;
}

Method parse_method(std::string_view name) {
  switch (name.size()) {
    case 3:
      if (name == "GET") return Method::get;
      if (name == "PUT") return Method::put;
      break;
    case 4:
      if (name == "POST") return Method::post;
      if (name == "HEAD") return Method::head;
      break;
    case 5:
      if (name == "PATCH") return Method::patch;
      if (name == "TRACE") return Method::trace;
      if (name == "QUERY") return Method::query;
      break;
    case 6:
      if (name == "DELETE") return Method::delete_;
      break;
    case 7:
      if (name == "OPTIONS") return Method::options;
      if (name == "CONNECT") return Method::connect;
      break;
    default: break;
  }
  return Method::other;
}

bool misspells_method(std::string_view name) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(Method::other); ++i) {
    const std::string_view known = method_name(static_cast<Method>(i));
    if (same_name(name, known)) return name != known;
  }
  return false;
}

std::string_view method_name(Method method) {
  switch (method) {
    case Method::get: return "GET";
    case Method::head: return "HEAD";
    case Method::post: return "POST";
    case Method::put: return "PUT";
    case Method::patch: return "PATCH";
    case Method::delete_: return "DELETE";
    case Method::options: return "OPTIONS";
    case Method::connect: return "CONNECT";
    case Method::trace: return "TRACE";
    case Method::query: return "QUERY";
    case Method::other: return {};
  }
  return {};
}

bool is_safe(Method method) {
  switch (method) {
    case Method::get:
    case Method::head:
    case Method::options:
    case Method::trace:
    case Method::query: return true;
    case Method::post:
    case Method::put:
    case Method::patch:
    case Method::delete_:
    case Method::connect:
    case Method::other: return false;
  }
  return false;
}

MethodSet methods(std::initializer_list<Method> list) {
  MethodSet set;
  for (const Method method : list) set.set(static_cast<std::size_t>(method));
  return set;
}

bool contains(const MethodSet& set, Method method) {
  return set.test(static_cast<std::size_t>(method));
}

}  // namespace once::core
