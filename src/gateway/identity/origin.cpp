#include "gateway/identity/origin.hpp"

#include <algorithm>
#include <array>

#include "core/headers.hpp"

namespace once::gateway {

namespace {

constexpr std::string_view x_for = "X-Forwarded-For";
constexpr std::string_view x_proto = "X-Forwarded-Proto";
constexpr std::string_view x_host = "X-Forwarded-Host";
constexpr std::string_view forwarded_field = "Forwarded";
const std::string unknown_client = "unknown";

// Fields besides X-Forwarded-* in which proxies, clouds and frameworks look for the client's address.
constexpr std::array<std::string_view, 18> address_fields = {
    "Forwarded",        "X-Real-IP",           "True-Client-IP",
    "CF-Connecting-IP", "CF-Connecting-IPv6",  "CF-Pseudo-IPv4",
    "Fastly-Client-IP", "Fly-Client-IP",       "Client-IP",
    "X-Client-IP",      "X-Cluster-Client-IP", "X-Remote-IP",
    "X-Remote-Addr",    "X-Originating-IP",    "X-Original-Forwarded-For",
    "X-Azure-ClientIP", "WL-Proxy-Client-IP",  "X-Envoy-External-Address"};

bool says_x_forwarded(ForwardedFields fields) {
  return fields == ForwardedFields::x_forwarded || fields == ForwardedFields::both;
}

bool says_forwarded(ForwardedFields fields) {
  return fields == ForwardedFields::forwarded || fields == ForwardedFields::both;
}

// Appends all fields of that name as one list.
void append_values(std::string& out, const http::RequestHead& head, std::string_view name) {
  for (const http::Field& field : head.fields) {
    if (same_name(field.name, name) && !field.value.empty()) out.append(field.value).append(", ");
  }
}

// A Host may contain characters that a token may not, such as a colon.
void append_quoted(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
}

}  // namespace

bool is_forwarded_field(std::string_view name) {
  constexpr std::string_view family = "X-Forwarded-";
  if (!std::string_view("cftwx").contains(to_lower(name.front()))) return false;
  return same_variable(name.substr(0, family.size()), family) ||
         std::ranges::any_of(address_fields, [name](std::string_view each) { return same_variable(name, each); });
}

Origin::Origin(std::string_view peer, Transport transport)
    : is_unix_(peer == http::unix_peer),
      number_(http::IpAddress::parse(peer)),
      address_(number_ ? peer : std::string_view()),
      proto_(transport == Transport::tls ? "https" : "http") {
  // RFC 7239: "unknown" without an address, and IPv6 addresses in brackets and quotes.
  const bool ipv6 = address_.contains(':');
  element_ = "for=" + (address_.empty() ? unknown_client : ipv6 ? "\"[" + address_ + "]\"" : address_);
  element_.append(";proto=").append(proto_);
  if (!address_.empty()) x_forwarded_.append(x_for).append(": ").append(address_).append("\r\n");
  x_forwarded_.append(x_proto).append(": ").append(proto_).append("\r\n");
}

void Origin::trust(const http::AddressSet& proxies) {
  const bool trusted = is_unix_ ? proxies.contains_unix() : number_ && proxies.contains(*number_);
  peer_ = trusted ? PeerTrust::trusted_proxy : PeerTrust::client;
}

bool Origin::keeps(std::string_view name, ForwardedFields fields) const {
  if (fields == ForwardedFields::off) return true;
  // Also fields that Once does not write: a backend may read them.
  if (peer_ == PeerTrust::client) return false;
  if (same_variable(name, forwarded_field)) return !says_forwarded(fields);
  // A trusted proxy knows the scheme and host that the client asked for.
  return !same_variable(name, x_for) || !says_x_forwarded(fields);
}

void Origin::append(std::string& out, const http::RequestHead& head, ForwardedFields fields) const {
  if (says_x_forwarded(fields)) append_x_forwarded(out, head);
  if (says_forwarded(fields)) append_forwarded(out, head);
}

void Origin::append_x_forwarded(std::string& out, const http::RequestHead& head) const {
  if (peer_ == PeerTrust::client) {
    out.append(x_forwarded_);
    if (!head.host.empty()) out.append(x_host).append(": ").append(head.host).append("\r\n");
    return;
  }
  out.append(x_for).append(": ");
  append_values(out, head, x_for);
  out.append(address_.empty() ? unknown_client : address_).append("\r\n");
  if (!head.find(x_proto)) out.append(x_proto).append(": ").append(proto_).append("\r\n");
  if (!head.find(x_host) && !head.host.empty()) out.append(x_host).append(": ").append(head.host).append("\r\n");
}

void Origin::append_forwarded(std::string& out, const http::RequestHead& head) const {
  out.append(forwarded_field).append(": ");
  if (peer_ == PeerTrust::trusted_proxy) append_values(out, head, forwarded_field);
  out.append(element_);
  if (!head.host.empty()) {
    out.append(";host=");
    append_quoted(out, head.host);
  }
  out.append("\r\n");
}

}  // namespace once::gateway
