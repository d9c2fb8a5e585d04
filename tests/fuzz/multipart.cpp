// Multipart bodies for the fingerprint: another boundary makes no difference, another byte always does. The input is a
// boundary, a line end and a body.
#include <algorithm>
#include <string>
#include <string_view>

#include "core/fingerprint.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using once::base::Fingerprint;
using once::core::FingerprintPolicy;

Fingerprint print_of(std::string_view boundary, std::string_view body, FingerprintPolicy::Body how) {
  FingerprintPolicy policy;
  policy.body = how;
  const std::string type = "multipart/form-data; boundary=\"" + std::string(boundary) + "\"";
  return once::core::fingerprint(policy, "POST", "/", type, body);
}

std::string replaced(std::string_view body, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; (at = body.find(from)) != std::string_view::npos; body.remove_prefix(at + from.size())) {
    (out += body.substr(0, at)) += to;
  }
  return out += body;
}

}  // namespace

FUZZ(bytes) {
  using Body = FingerprintPolicy::Body;
  const std::size_t line = std::min(bytes.find('\n'), bytes.size());
  const std::string_view boundary = bytes.substr(0, line);
  const std::string_view body = bytes.substr(std::min(line + 1, bytes.size()));
  if (boundary.contains('"')) return;  // ends the boundary early
  const Fingerprint print = print_of(boundary, body, Body::automatic);
  ONCE_ASSERT(print == print_of(boundary, body, Body::multipart));

  std::string other(body);
  if (!other.empty()) {
    other[other.size() / 2] = static_cast<char>(other[other.size() / 2] ^ 1);
    ONCE_ASSERT(print != print_of(boundary, other, Body::automatic));
    other.resize(other.size() / 2);
    ONCE_ASSERT(print != print_of(boundary, other, Body::automatic));
  }
  ONCE_ASSERT(print != print_of(boundary, std::string(body) + "\r\n", Body::automatic));

  if (print == print_of(boundary, body, Body::raw)) return;  // no multipart body
  constexpr std::string_view drawn = "another-boundary-that-is-in-no-body";
  if (body.contains(drawn)) return;
  const std::string delimiter = "--" + std::string(boundary);
  ONCE_ASSERT(print == print_of(drawn, replaced(body, delimiter, "--" + std::string(drawn)), Body::automatic));
}
