// Whose request it is: cookies and headers of a request that was taken. A second one of a name is never overlooked.
// The input is the name of a cookie, a line end, and the rest of a request's head.
#include "gateway/identity/scope.hpp"

#include <string>

#include "tests/fuzz/input.hpp"

namespace {

using once::core::CallerSource;
using once::gateway::FoundSource;

FoundSource found_in(std::string_view header, std::string_view name) {
  FoundSource found;
  once::gateway::find_cookie(header, name, found);
  return found;
}

void check_cookies(std::string_view header, std::string_view name) {
  const FoundSource found = found_in(header, name);
  ONCE_ASSERT(found.count <= header.size());
  const std::string text(header);
  const std::string own(name);
  const std::string at_end = text + ";" + own + "=one more";
  const FoundSource more = found_in(at_end, name);
  ONCE_ASSERT(more.count == found.count + 1 && more.value == "one more");
  const std::string at_front = own + "=first ;" + text;
  const FoundSource first = found_in(at_front, name);
  ONCE_ASSERT(first.count == found.count + 1 && first.value == (found.count == 0 ? "first" : found.value));
  const std::string with_other = text + "; x" + own + "=other";
  const FoundSource other = found_in(with_other, name);
  ONCE_ASSERT(other.count == found.count && other.value == found.value);
  ONCE_ASSERT(found.count > 0 || !header.starts_with(own + "="));
}

void check_request(std::string_view fields, const once::core::Policy& policy) {
  const std::string bytes = "POST /a HTTP/1.1\r\nHost: a\r\n" + std::string(fields);
  once::http::RequestHead head;
  if (once::http::parse(bytes, {}, head).parsed != once::http::Parsed::complete) return;
  const once::gateway::ScopeParts scope(policy, head);
  // host with three values; caller; two sources, each with its kind, its name, whether it is there and its value;
  // method and path with a value each
  ONCE_ASSERT(scope.parts().size() == 17);
  // Said once more, in a field of its own, it is ambiguous, and absent otherwise.
  const std::string twice =
      bytes.substr(0, head.size - 2) + "Authorization: more\r\nCookie: " + policy.caller[1].name + "=more\r\n\r\n";
  once::http::RequestHead longer;
  if (once::http::parse(twice, {}, longer).parsed != once::http::Parsed::complete) return;
  const once::gateway::ScopeParts with_more(policy, longer);
  const bool absent = scope.parts()[7] == "absent" && scope.parts()[11] == "absent";
  ONCE_ASSERT((with_more.ambiguous() == nullptr) == absent);
  if (absent) ONCE_ASSERT(with_more.parts()[8] == "more" && with_more.parts()[12] == "more");
}

}  // namespace

FUZZ(bytes) {
  const std::size_t line_end = bytes.find('\n');
  if (line_end == std::string_view::npos || line_end == 0) return;
  const std::string_view name = bytes.substr(0, line_end);
  // As the configuration takes it.
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != name.npos) return;
  const std::string_view rest = bytes.substr(line_end + 1);
  check_cookies(rest, name);
  once::core::Policy policy;
  policy.caller = {{.kind = CallerSource::Kind::header, .name = "Authorization"},
                   {.kind = CallerSource::Kind::cookie, .name = std::string(name)}};
  policy.scope = {once::core::ScopePart::caller, once::core::ScopePart::method, once::core::ScopePart::path};
  check_request(rest, policy);
}
