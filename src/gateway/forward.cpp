#include "gateway/forward.hpp"

#include "base/text.hpp"
#include "core/headers.hpp"

namespace once {

namespace {

bool goes_on(const http::RequestHead& head, const http::Field& field, const ForwardedHead& as) {
  switch (field.name.size()) {
    case 6:
      if (same_name(field.name, "Expect")) return as.forward_expect;
      break;
    case 12:
      if (same_name(field.name, "X-Request-Id")) return false;
      break;
    case 14:
      if (same_name(field.name, "Content-Length")) return false;
      break;
    default: break;
  }
  return !is_reserved_request_header(field.name) && !head.hop_by_hop(field.name);
}

}  // namespace

void write_forwarded_head(std::string& out, const http::RequestHead& head, const ForwardedHead& as) {
  out.clear();
  out.append(head.method_text).append(" ").append(as.base_path).append(head.target).append(" HTTP/1.1\r\n");
  for (const http::Field& field : head.fields) {
    if (goes_on(head, field, as)) out.append(field.line);
  }
  // An HTTP/1.0 client may leave it out, we may not.
  if (head.host.empty() && !head.find("Host")) out.append("Host: ").append(as.authority).append("\r\n");
  out.append(as.added_fields);
  switch (as.framing.kind) {
    case http::Framing::Kind::length:
      out.append("Content-Length: ");
      append_number(out, as.framing.length);
      out.append("\r\n");
      break;
    case http::Framing::Kind::chunked: out.append("Transfer-Encoding: chunked\r\n"); break;
    case http::Framing::Kind::none:
    case http::Framing::Kind::until_close: break;
  }
  if (as.upgrade == UpgradeTo::backend) {
    out.append("Connection: upgrade\r\nUpgrade: ").append(head.find("Upgrade").value_or("")).append("\r\n");
  }
  out.append("\r\n");
}

}  // namespace once
