#include "gateway/upstream/forward.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/path.hpp"
#include "gateway/identity/session_cookie.hpp"

namespace once::gateway {

namespace {

constexpr std::string_view max_forwards = "Max-Forwards";

bool is_forwarded(const http::RequestHead& head, const http::Field& field, const ForwardedHead& as) {
  switch (field.name.size()) {
    case 4:
      if (same_name(field.name, "Host")) return as.host.empty();
      break;
    case 6:
      if (same_name(field.name, "Expect")) return as.forward_expect;
      break;
    case 12:
      if (same_name(field.name, "X-Request-Id")) return false;
      if (head.method == Method::options && same_name(field.name, max_forwards)) return false;
      break;
    case 14:
      if (same_name(field.name, "Content-Length")) return false;
      break;
    default: break;
  }
  if (as.origin != nullptr && is_forwarded_field(field.name) && !as.origin->keeps(field.name, as.forwarded)) {
    return false;
  }
  if (as.drop_resume && is_resume_header(field.name)) return false;
  return !is_reserved_request_header(field.name) && !head.hop_by_hop(field.name);
}

// Every proxy on the way parses Host: no tabs or other oddities that one of them could read differently.
void append_host(std::string& out, std::string_view value) {
  out.append(value.empty() ? "Host:" : "Host: ").append(value).append("\r\n");
}

// Appends Max-Forwards with one hop less than the client sent. With 0 hops the request was answered here and never
// forwarded.
void append_hops(std::string& out, const http::RequestHead& head) {
  const auto hops = hops_left(head);
  if (!hops) return;
  out.append(max_forwards).append(": ");
  append_number(out, *hops == 0 ? 0 : *hops - 1);
  out.append("\r\n");
}

// Drops the dashboard's session cookies and keeps the others.
void append_cookies(std::string& out, const http::Field& field) {
  if (!field.value.contains(session_cookie)) {
    out.append(field.line);
    return;
  }
  std::string_view before = ": ";
  for (const std::string_view part : split(field.value, ';')) {
    const std::string_view pair = trim(part);
    if (pair.starts_with(session_cookie)) continue;
    if (before == ": ") out.append(field.name);
    out.append(before).append(pair);
    before = "; ";
  }
  if (before == "; ") out.append("\r\n");
}

}  // namespace

std::optional<std::uint64_t> hops_left(const http::RequestHead& head) {
  const auto value = head.find(max_forwards);
  return value ? parse_number(*value) : std::nullopt;
}

bool came_through(const http::RequestHead& head, std::string_view name) {
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, "Via")) continue;
    for (std::string_view hop : split(field.value, ',')) {
      hop = trim(hop);
      hop.remove_prefix(std::min(hop.find(' '), hop.size()));  // the protocol
      hop = trim(hop);
      if (hop.substr(0, hop.find(' ')) == name) return true;
    }
  }
  return false;
}

std::string_view without_prefix(std::string_view target, std::string_view prefix) {
  if (!target.starts_with(prefix)) return target;
  const std::string_view rest = target.substr(prefix.size());
  return rest.empty() || rest.front() == '/' || rest.front() == '?' ? rest : target;
}

bool leaves_prefix(std::string_view path, std::string_view normal, std::string_view strip_prefix,
                   std::string_view base_path) {
  if (strip_prefix.empty() && base_path.empty()) return false;
  const bool should_strip = without_prefix(normal, strip_prefix).size() != normal.size();
  const bool strips = without_prefix(path, strip_prefix).size() != path.size();
  return wanders(path) || (!strip_prefix.empty() && should_strip != strips);
}

void write_forwarded_head(std::string& out, const http::RequestHead& head, const ForwardedHead& as) {
  out.clear();
  const std::string_view target = as.strip_prefix.empty() ? head.target : without_prefix(head.target, as.strip_prefix);
  out.append(head.method_text).append(" ");
  if (target != "*") out.append(as.base_path);
  if (target.empty() || target.front() == '?') out.push_back('/');
  out.append(target).append(" HTTP/1.1\r\n");
  for (const http::Field& field : head.fields) {
    if (!is_forwarded(head, field, as)) continue;
    if (same_name(field.name, "Host")) {
      append_host(out, head.host);
    } else if (same_name(field.name, "Cookie")) {
      append_cookies(out, field);
    } else {
      out.append(field.line);
    }
  }
  // HTTP/1.0 clients may omit Host; HTTP/1.1 requires it.
  if (!as.host.empty()) {
    out.append("Host: ").append(as.host).append("\r\n");
  } else if (!head.has_host) {
    append_host(out, head.host.empty() ? as.authority : head.host);
  }
  out.append(as.added_fields.lines());
  // Append to the Via of the client, which names the earlier hops. The version is the client's.
  if (!as.via.empty()) {
    out.append(head.version == http::Version::http_1_1 ? "Via: 1.1 " : "Via: 1.0 ").append(as.via).append("\r\n");
  }
  if (head.method == Method::options) append_hops(out, head);
  if (as.origin != nullptr) as.origin->append(out, head, as.forwarded);
  http::append_framing(out, as.framing);
  if (!as.upgrade.empty()) out.append("Connection: upgrade\r\nUpgrade: ").append(as.upgrade).append("\r\n");
  out.append("\r\n");
}

}  // namespace once::gateway
