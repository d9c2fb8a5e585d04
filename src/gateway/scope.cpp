#include "gateway/scope.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"

namespace once {

namespace {

std::optional<std::string_view> find_source(const CallerSource& source, const http::RequestHead& head) {
  switch (source.kind) {
    case CallerSource::Kind::header: return head.find(source.name);
    case CallerSource::Kind::cookie: {
      const auto cookies = head.find("Cookie");
      return cookies ? find_cookie(*cookies, source.name) : std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> find_cookie(std::string_view header, std::string_view name) {
  while (!header.empty()) {
    const std::size_t end = header.find(';');
    const std::string_view pair = trim(header.substr(0, end));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) return pair.substr(equals + 1);
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
  }
  return std::nullopt;
}

void ScopeParts::add_caller(const Policy& policy, const http::RequestHead& head) {
  ONCE_ASSERT(policy.caller.size() <= max_caller_sources);
  for (const CallerSource& source : policy.caller) {
    const auto value = find_source(source, head);
    add(value ? "given" : "absent");  // an empty value is not the same as none
    add(value.value_or(""));
  }
}

ScopeParts::ScopeParts(const Policy& policy, const http::RequestHead& head) {
  for (const ScopePart part : policy.scope) {
    switch (part) {
      case ScopePart::caller:
        add("caller");
        add_caller(policy, head);
        break;
      case ScopePart::method:
        add("method");
        add(head.method_text);
        break;
      case ScopePart::path:
        add("path");
        add(head.path);
        break;
    }
  }
}

}  // namespace once
