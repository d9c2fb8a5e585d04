#include "sim/byte_marks.hpp"

#include <cstdio>

#include <fmt/format.h>

namespace once::sim {

namespace {

constexpr unsigned hosts = 2;

}  // namespace

std::string token_of(unsigned caller) {
  return fmt::format("tok-{}.", caller);
}

std::string foreign_token(std::string_view text, unsigned caller) {
  const std::string own = token_of(caller);
  for (std::size_t at = text.find("tok-"); at != std::string_view::npos; at = text.find("tok-", at + 1)) {
    const std::string_view found = text.substr(at);
    // A truncated token may be anyone's prefix, also this caller's.
    if (found.size() < own.size() && own.starts_with(found)) continue;
    if (!found.starts_with(own)) return std::string(found.substr(0, found.find('.') + 1));
  }
  return "";
}

WireName wire_name(unsigned operation, std::size_t routes) {
  const auto count = static_cast<unsigned>(routes);
  return {.route = operation % count, .host = operation / count % hosts, .key = operation / count / hosts};
}

unsigned operation_of(const WireName& name, std::size_t routes) {
  return static_cast<unsigned>(name.route + routes * (name.host + hosts * name.key));
}

std::string keyed_body(unsigned key, unsigned content) {
  const std::size_t padding = key % 2 == 1 ? 9000 : key * 40;
  return fmt::format("content={} {}", content, std::string(padding, 'b'));
}

std::string keyed_head(const Asked& asked, std::size_t routes) {
  const WireName name = wire_name(asked.operation, routes);
  return fmt::format("POST /route/{} HTTP/1.1\r\nHost: h{}.test\r\nAuthorization: {}\r\nIdempotency-Key: key-{}\r\n",
                     name.route, name.host, token_of(asked.caller), name.key);
}

std::optional<unsigned> caller_in(const Message& request) {
  unsigned caller = 0;
  if (std::sscanf(request.field("Authorization").c_str(), "tok-%u.", &caller) != 1) return std::nullopt;
  return caller;
}

std::optional<Asked> asked_in(const Message& request, std::size_t routes) {
  unsigned route = 0;
  unsigned host = 0;
  unsigned key = 0;
  unsigned content = 0;
  const auto caller = caller_in(request);
  if (!caller || std::sscanf(request.target.c_str(), "/route/%u", &route) != 1 ||
      std::sscanf(request.field("Host").c_str(), "h%u.test", &host) != 1 ||
      std::sscanf(request.field("Idempotency-Key").c_str(), "key-%u", &key) != 1 ||
      std::sscanf(request.body.c_str(), "content=%u", &content) != 1) {
    return std::nullopt;
  }
  return Asked{.operation = operation_of({.route = route, .host = host, .key = key}, routes),
               .caller = *caller,
               .content = content};
}

}  // namespace once::sim
