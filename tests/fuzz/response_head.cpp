// Heads of responses, to every kind of request: what is taken has one framing and is the same head when it is written
// again. The whole input is the stream.
#include "tests/fuzz/head_checks.hpp"

namespace {

using once::http::Framing;
using once::http::HeadLimits;
using once::http::Method;
using once::http::Parsed;
using once::http::Persistence;
using once::http::ResponseHead;

void check_taken(const ResponseHead& head, Method answers, std::string_view bytes) {
  once::fuzz::check_fields(head, bytes);
  ONCE_ASSERT(head.status >= 100 && head.status <= 599);
  ONCE_ASSERT(once::fuzz::is_text(head.reason) && once::fuzz::lies_in(head.reason, bytes.substr(0, head.size)));
  const Framing stated = once::fuzz::only_framing(head);
  const bool no_body = answers == Method::head || head.status < 200 || head.status == 204 || head.status == 304;
  if (no_body) {
    ONCE_ASSERT(once::fuzz::same(head.framing, Framing()));
  } else if (stated.kind == Framing::Kind::none) {
    ONCE_ASSERT(head.framing.kind == Framing::Kind::until_close && head.persistence == Persistence::close);
  } else {
    ONCE_ASSERT(once::fuzz::same(head.framing, stated));
  }
}

void check_answer(std::string_view bytes, Method answers) {
  ResponseHead head;
  const auto result = once::http::parse(bytes, HeadLimits(), answers, head);
  once::fuzz::check_growing(bytes, result.parsed, head.size, [&](std::string_view part) {
    ResponseHead other;
    return once::http::parse(part, HeadLimits(), answers, other).parsed;
  });
  if (result.parsed != Parsed::complete) return;
  check_taken(head, answers, bytes);

  std::string again(once::fuzz::written(head.version));
  again.append(" ").append(std::to_string(head.status)).append(" ").append(head.reason).append("\r\n");
  again += once::fuzz::written_fields(head);
  // Into a head that another message left behind.
  static constexpr std::string_view other =
      "HTTP/1.0 200 OK\r\nConnection: upgrade, x, close\r\nUpgrade: y\r\nContent-Length: 5\r\n\r\n";
  ResponseHead used;
  ONCE_ASSERT(once::http::parse(other, HeadLimits(), answers, used).parsed == Parsed::complete);
  const auto second = once::http::parse(again, HeadLimits{.max_bytes = again.size()}, answers, used);
  ONCE_ASSERT(second.parsed == Parsed::complete && used.size == again.size());
  once::fuzz::check_same(head, used);
  ONCE_ASSERT(head.status == used.status && head.reason == used.reason);
}

}  // namespace

FUZZ(bytes) {
  for (const Method answers : {Method::get, Method::head, Method::post}) check_answer(bytes, answers);
}
