// Heads of requests: what is taken has one framing, one host and one target, and is the same head when it is written
// again. The whole input is the stream.
#include "tests/fuzz/head_checks.hpp"

namespace {

using once::http::HeadLimits;
using once::http::Parsed;
using once::http::RequestHead;
using once::http::TargetScheme;

Parsed parsed(std::string_view bytes, const HeadLimits& limits = {}) {
  RequestHead head;
  return once::http::parse(bytes, limits, head).parsed;
}

void check_same(const RequestHead& a, const RequestHead& b) {
  once::fuzz::check_same(a, b);
  ONCE_ASSERT(a.method_text == b.method_text && a.method == b.method && a.target == b.target && a.path == b.path);
  ONCE_ASSERT(a.host == b.host && a.scheme == b.scheme && a.has_host == b.has_host);
  ONCE_ASSERT(a.expects_continue == b.expects_continue);
}

void check_taken(const RequestHead& head, std::string_view bytes) {
  once::fuzz::check_fields(head, bytes);
  ONCE_ASSERT(once::fuzz::same(head.framing, once::fuzz::only_framing(head)));
  ONCE_ASSERT(once::fuzz::is_token(head.method_text) && bytes.starts_with(head.method_text));
  ONCE_ASSERT(head.target == "*" || head.target.starts_with('/'));
  ONCE_ASSERT(std::ranges::all_of(head.target, [](char c) { return c > ' ' && c < 0x7f && c != '#'; }));
  ONCE_ASSERT(head.target.starts_with(head.path) && !head.path.contains('?'));
  const std::size_t hosts = once::fuzz::count(head, "host");
  ONCE_ASSERT(hosts == 1 || (hosts == 0 && head.version == once::http::Version::http_1_0));
  ONCE_ASSERT(head.has_host == (hosts == 1) && (hosts == 0 || !head.find("host")->empty()));
  ONCE_ASSERT(once::fuzz::count(head, "content-length") <= 1);
  // The host of a URL in the target comes before the field.
  ONCE_ASSERT(head.scheme == TargetScheme::none ? head.host == head.find("host").value_or("") : !head.host.empty());
}

std::string written_target(const RequestHead& head) {
  if (head.scheme == TargetScheme::none) return std::string(head.target);
  const std::string url = (head.scheme == TargetScheme::http ? "http://" : "https://") + std::string(head.host);
  return head.target == "*" ? url : url + std::string(head.target);
}

void check_limits(const RequestHead& head, std::string_view bytes) {
  const HeadLimits exact{.max_bytes = head.size, .max_fields = head.fields.size(), .max_target = 8192};
  ONCE_ASSERT(parsed(bytes, exact) == Parsed::complete);
  HeadLimits tight = exact;
  tight.max_bytes -= 1;
  ONCE_ASSERT(parsed(bytes, tight) == Parsed::bad);
  tight = exact;
  tight.max_target = head.target.size() - 1;
  ONCE_ASSERT(parsed(bytes, tight) == Parsed::bad);
  if (head.fields.empty()) return;
  tight = exact;
  tight.max_fields -= 1;
  ONCE_ASSERT(parsed(bytes, tight) == Parsed::bad);
}

}  // namespace

FUZZ(bytes) {
  RequestHead head;
  const auto result = once::http::parse(bytes, HeadLimits(), head);
  once::fuzz::check_growing(bytes, result.parsed, head.size, [](std::string_view part) { return parsed(part); });
  if (result.parsed == Parsed::bad) ONCE_ASSERT(!std::string_view(once::http::describe(result.error)).empty());
  if (result.parsed != Parsed::complete) return;
  check_taken(head, bytes);
  check_limits(head, bytes);

  std::string again(head.method_text);
  again.append(" ").append(written_target(head)).append(" ").append(once::fuzz::written(head.version)).append("\r\n");
  again += once::fuzz::written_fields(head);
  // Into a head that another message left behind.
  static constexpr std::string_view other =
      "GET http://b/?x HTTP/1.1\r\nHost: b\r\nConnection: upgrade, x, close\r\nUpgrade: y\r\nExpect: 100-continue\r\n"
      "Transfer-Encoding: chunked\r\n\r\n";
  RequestHead used;
  ONCE_ASSERT(once::http::parse(other, HeadLimits(), used).parsed == Parsed::complete);
  const auto second = once::http::parse(again, HeadLimits{.max_bytes = again.size()}, used);
  ONCE_ASSERT(second.parsed == Parsed::complete && used.size == again.size());
  check_same(head, used);
}
