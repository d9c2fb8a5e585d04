#include "gateway/identity/evasion.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"
#include "gateway/identity/origin.hpp"

namespace once::gateway {

namespace {

// How another parser may read the request: its method and host, and another path.
struct Asked {
  Method method;
  std::string_view host;
};

bool is_another_route(const Routes& routes, const RoutedPolicy& routed, const Asked& asked, std::string_view path) {
  const RoutedPolicy other = routes.find(asked.method, path, asked.host);
  return other.policy != nullptr && other.index != routed.index;
}

// Tries each deviation alone and all together: a backend may have any of them, or several.
bool takes_another_route(const Routes& routes, const RoutedPolicy& routed, const Asked& asked,
                         std::string_view normal) {
  for (unsigned habits = 1; habits < 32; ++habits) {
    const Reading reading{.encoded_slashes = (habits & 1U) != 0,
                          .backslashes = (habits & 2U) != 0,
                          .parameters = (habits & 4U) != 0,
                          .encoded_slash_ends_parameters = (habits & 8U) != 0,
                          .backslash_ends_parameters = (habits & 16U) != 0};
    const auto read = reread(normal, reading);
    if (!read) continue;
    if (!*read) return true;
    if (is_another_route(routes, routed, asked, **read)) return true;
  }
  return false;
}

// Resolves a path as URL parsers do: ".." at the root stays there. The request's own path was checked before.
std::string resolved_at_root(std::string_view path) {
  std::string out;
  for (const std::string_view part : split(path, '/')) {
    const std::string segment = normalise_segment(part);
    if (segment == "..") {
      out.resize(out.empty() ? 0 : out.rfind('/'));
    } else if (!segment.empty() && segment != ".") {
      out.append("/").append(segment);
    }
  }
  if (out.empty() || path.ends_with('/')) out.push_back('/');
  return out;
}

// A parser that resolves the target as a URL reference, such as urlparse() or new URL(), reads "//x/payments" as
// /payments at host x. new URL() also treats a backslash as a slash and decodes the host; both drop anything before an
// @.
bool hides_route_behind_host(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head) {
  constexpr std::string_view slashes = "/\\";
  const std::size_t host = std::min(head.path.find_first_not_of(slashes), head.path.size());
  if (host < 2) return false;
  const std::size_t end = std::min(head.path.find_first_of(slashes, host), head.path.size());
  const std::string normal = resolved_at_root(head.path.substr(std::min(end + 1, head.path.size())));
  const std::string authority = normalise_segment(head.path.substr(host, end - host));
  const std::string_view named = std::string_view(authority).substr(authority.rfind('@') + 1);
  // The backend may route by that host, or by the Host field.
  return std::ranges::any_of(std::array{head.host, named}, [&](std::string_view name) {
    const Asked asked{.method = head.method, .host = name};
    return is_another_route(routes, routed, asked, normal) || takes_another_route(routes, routed, asked, normal);
  });
}

bool begins_with_variable(std::string_view name, std::string_view family) {
  return same_variable(name.substr(0, family.size()), family);
}

// Fields that Once or a backend relies on, whatever the route.
bool is_relied_on(std::string_view name) {
  return same_name(name, "Authorization") || same_name(name, "Cookie") || same_name(name, "Host") ||
         begins_with_variable(name, "Content-") || begins_with_variable(name, "Idempotency-") ||
         same_variable(name, "X-Idempotency-Key") || is_forwarded_field(name);
}

bool is_disguised(std::string_view name, const NamedFields& named) {
  if (named.any([name](std::string_view each) { return same_name(name, each); })) return false;
  if (named.any([name](std::string_view each) { return same_variable(name, each); })) return true;
  return name.contains('_') && (is_relied_on(name) || same_variable(name, "Transfer-Encoding") ||
                                same_variable(name, "X-Request-Id") || begins_with_variable(name, "Proxy-"));
}

bool names_another_url(std::string_view name) {
  return same_variable(name, "X-Original-URL") || same_variable(name, "X-Rewrite-URL");
}

// Whether the text after a comma continues the credentials before it: `Digest a="b", c=d` is one credential, `Basic
// eDp5,Bearer abc=` is two.
bool is_parameter(std::string_view text) {
  const std::size_t equals = text.find('=');
  return equals != std::string_view::npos && is_token(trim(text.substr(0, equals))) &&
         text.find_first_not_of('=', equals) != std::string_view::npos;
}

}  // namespace

// When two Cookie fields were joined with a comma, the last cookie of the first field and the first of the second look
// like one pair. Each part of such a pair is added as a cookie, besides the whole pair. The comma may also belong to
// the value, so a cookie that names the caller is then ambiguous.
void separate_cookies(const http::Field& field, std::vector<http::Field>& added) {
  for (const std::string_view pair : split(field.value, ';')) {
    if (!pair.contains(',')) continue;
    for (const std::string_view part : split(pair, ',')) {
      added.push_back({.name = field.name, .value = trim(part), .line = field.line});
    }
  }
}

void separate_joined(http::RequestHead& head, const NamedFields& named) {
  std::vector<http::Field> added;
  for (http::Field& field : head.fields) {
    if (named.cookie() && same_name(field.name, "Cookie")) separate_cookies(field, added);
    if (!named.any([&](std::string_view each) { return same_name(field.name, each); })) continue;
    const bool has_parameters = same_name(field.name, "Authorization");
    const bool quotes = has_parameters || field.value.starts_with('"');
    const auto end_of = [quotes](std::string_view text) {
      return quotes ? end_of_part(text, ",") : std::min(text.find(','), text.size());
    };
    std::string_view rest = field.value;
    std::size_t end = end_of(rest);
    while (end < rest.size()) {
      rest.remove_prefix(end + 1);
      end = end_of(rest);
      const std::string_view next = trim(rest.substr(0, end));
      if (has_parameters && is_parameter(next)) continue;
      added.push_back({.name = field.name, .value = next, .line = field.line});
    }
  }
  head.fields.insert(head.fields.end(), added.begin(), added.end());
}

void drop_disguised(http::RequestHead& head, const NamedFields& named, PeerTrust peer) {
  const bool odd_names = named.any([](std::string_view each) { return each.contains('_'); });
  std::erase_if(head.fields, [&](const http::Field& field) {
    if ((odd_names || field.name.contains('_')) && is_disguised(field.name, named)) return true;
    return peer == PeerTrust::client && names_another_url(field.name);
  });
}

std::optional<Problem> field_dropped(const http::RequestHead& head, const NamedFields& named) {
  if (!head.connection_names_fields) return std::nullopt;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Connection")) continue;
    for (const std::string_view part : split(field.value, ',')) {
      const std::string_view name = trim(part);
      const bool by_route = named.any([name](std::string_view each) { return same_variable(name, each); });
      if (name.empty() || (!by_route && !is_relied_on(name))) continue;
      sometimes<"identity: Connection names the key">();
      return problem(ProblemKind::bad_request,
                     fmt::format("The Connection header lists {}, which is an end-to-end header.", name));
    }
  }
  return std::nullopt;
}

std::optional<Problem> misdirected(const http::RequestHead& head, bool secure, PeerTrust peer) {
  if (head.scheme == http::TargetScheme::none || peer == PeerTrust::trusted_proxy) return std::nullopt;
  if ((head.scheme == http::TargetScheme::https) == secure) return std::nullopt;
  Problem answer =
      problem(ProblemKind::bad_request, "The scheme in the request target is not the scheme of this connection.");
  answer.status = 421;
  return answer;
}

std::optional<Problem> unreadable_forwarded(const http::RequestHead& head, PeerTrust peer) {
  if (peer == PeerTrust::client) return std::nullopt;
  for (const http::Field& field : head.fields) {
    if (!same_variable(field.name, "Forwarded") || is_forwarded_list(field.value)) continue;
    return problem(ProblemKind::bad_request,
                   "The Forwarded header is malformed (RFC 7239), so the requested host is ambiguous.");
  }
  return std::nullopt;
}

std::optional<Problem> route_evaded(const Routes& routes, const RoutedPolicy& routed, const http::RequestHead& head,
                                    std::string_view normal) {
  if (head.method == Method::other && misspells_method(head.method_text)) {
    return problem(ProblemKind::bad_request, "The method is not in capitals. Methods are case-sensitive.");
  }
  if (hides_route_behind_host(routes, routed, head)) {
    sometimes<"identity: a route behind a host">();
    return problem(ProblemKind::bad_request,
                   "The path begins with two slashes, which a backend could read as a host and another path.");
  }
  const bool plain = normal.find_first_of("%;\\") == std::string_view::npos;
  if (!plain && takes_another_route(routes, routed, {.method = head.method, .host = head.host}, normal)) {
    sometimes<"identity: a path that some backends read as another route">();
    return problem(
        ProblemKind::bad_request,
        "The path contains an encoded slash, a backslash or a semicolon, and a backend could read it as the path of "
        "another route.");
  }
  return std::nullopt;
}

}  // namespace once::gateway
