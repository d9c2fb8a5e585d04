#include "gate/request_head.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/headers.hpp"
#include "gate/head_text.hpp"
#include "gateway/identity/head_problem.hpp"
#include "http/address_set.hpp"

namespace once::gate {

std::string_view RequestText::peer() const {
  const bool is_unix = request.peer.empty() || request.peer.starts_with(http::unix_peer);
  return is_unix ? http::unix_peer : std::string_view(request.peer);
}

bool RequestText::is_secure() const {
  return iequals(request.scheme, "https");
}

std::optional<Problem> RequestText::parse(const Limits& limits) {
  const auto is_line = [](const Field& field) { return is_one_line(field.name) && is_one_line(field.value); };
  if (!is_one_line(request.method) || !is_one_line(request.target) || !std::ranges::all_of(request.fields, is_line)) {
    return problem(ProblemKind::bad_request, "The request line or a header field contains a line end or a NUL.");
  }
  // HTTP/1.1 requires Host, so a request without it must have been HTTP/1.0.
  const bool has_host =
      std::ranges::any_of(request.fields, [](const Field& field) { return same_name(field.name, "Host"); });
  text_.append(request.method).append(" ").append(request.target).append(has_host ? " HTTP/1.1\r\n" : " HTTP/1.0\r\n");
  for (const Field& field : request.fields) {
    if (!is_framing(field.name)) append_line(text_, field);
    // A host may contain a comma, but two hosts are refused.
    const bool two_hosts = are_fields_joined() && same_name(field.name, "Host") && field.value.contains(',');
    if (two_hosts) append_line(text_, field);
  }
  text_.append("\r\n");
  const http::HeadLimits head_limits{
      .max_bytes = limits.max_header_bytes, .max_fields = limits.max_header_count, .max_target = limits.max_uri_bytes};
  const http::ParseResult parsed = http::parse(text_, head_limits, head);
  switch (parsed.parsed) {
    case http::Parsed::complete: return std::nullopt;
    case http::Parsed::bad: return head_problem(parsed.error);
    case http::Parsed::incomplete: break;
  }
  return problem(ProblemKind::bad_request, "The request head is not complete.");
}

}  // namespace once::gate
