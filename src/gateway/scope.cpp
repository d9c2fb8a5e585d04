#include "gateway/scope.hpp"

#include "base/assert.hpp"
#include "base/bug.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"

namespace once {

namespace {

FoundSource find_source(const CallerSource& source, const http::RequestHead& head) {
  FoundSource found;
  const bool cookie = source.kind == CallerSource::Kind::cookie;
  const std::string_view header = cookie ? std::string_view("Cookie") : source.name;
  for (const http::Field& field : head.fields) {
    if (!same_name(field.name, header)) continue;
    if (cookie) {
      find_cookie(field.value, source.name, found);
    } else {
      ++found.count;
      found.value = field.value;
    }
  }
  return found;
}

}  // namespace

void find_cookie(std::string_view header, std::string_view name, FoundSource& found) {
  while (!header.empty()) {
    const std::size_t end = header.find(';');
    const std::string_view pair = trim(header.substr(0, end));
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      ++found.count;
      found.value = pair.substr(equals + 1);
    }
    header.remove_prefix(end == std::string_view::npos ? header.size() : end + 1);
  }
}

void ScopeParts::add_caller(const Policy& policy, const http::RequestHead& head) {
  ONCE_ASSERT(policy.caller.size() <= max_caller_sources);
  caller_begin_ = count_;
  for (const CallerSource& source : policy.caller) {
    const FoundSource found = find_source(source, head);
    caller_given_ = caller_given_ || found.count > 0;
    if (found.count > 1) ambiguous_ = &source;
    add(found.count > 0 ? "given" : "absent");  // an empty value is not the same as none
    add(found.value);
  }
  caller_count_ = count_ - caller_begin_;
}

ScopeParts::ScopeParts(const Policy& policy, const http::RequestHead& head) {
  for (const ScopePart part : policy.scope) {
    switch (part) {
      case ScopePart::caller:
        add("caller");
        if (!planted(Bug::caller_not_in_id)) add_caller(policy, head);
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
