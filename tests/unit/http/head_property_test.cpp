// Heads in pieces, damaged and random: never read past their end, never taken before they are whole.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "http/head.hpp"

namespace once::http::head_property_test {

constexpr std::string_view token_characters = "!#$%&'*+-.^_`|~0123456789abcxyzABCXYZ";

std::string drawn_from(std::string_view alphabet, std::size_t least, std::size_t most) {
  const auto size = *rc::gen::inRange(least, most + 1);
  return *rc::gen::container<std::string>(size, rc::gen::elementOf(std::string(alphabet)));
}

std::string drawn_value() {
  return *rc::gen::container<std::string>(rc::gen::suchThat(rc::gen::arbitrary<char>(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  }));
}

std::string drawn_fields() {
  std::string fields;
  for (int count = *rc::gen::inRange(0, 6); count > 0; --count) {
    // "X-" keeps the name from being one that means something.
    fields += "X-" + drawn_from(token_characters, 0, 12) + ":" + drawn_value() + "\r\n";
  }
  return fields;
}

std::string drawn_request() {
  const std::string target = "/" + drawn_from("abc/%?&=-._~", 0, 40);
  const std::string framing =
      *rc::gen::element<std::string>("", "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n");
  return drawn_from(token_characters, 1, 10) + " " + target + " HTTP/1.1\r\n" + drawn_fields() + "Host: a\r\n" +
         drawn_fields() + framing + "\r\n";
}

std::string drawn_response() {
  return "HTTP/1.1 " + std::to_string(*rc::gen::inRange(100, 600)) + " " + drawn_value() + "\r\n" + drawn_fields() +
         "\r\n";
}

void lies_in(std::string_view view, std::string_view bytes) {
  if (view.empty()) return;
  RC_ASSERT(view.data() >= bytes.data());
  RC_ASSERT(view.data() + view.size() <= bytes.data() + bytes.size());
}

void fields_lie_in(const Head& head, std::string_view bytes) {
  RC_ASSERT(head.size <= bytes.size());
  for (const Field& field : head.fields) {
    for (const std::string_view view : {field.name, field.value, field.line}) lies_in(view, bytes.substr(0, head.size));
    RC_ASSERT(field.line.ends_with("\r\n"));
    RC_ASSERT(field.line.starts_with(field.name));
  }
}

// On the heap and exactly as long, so that ASan sees a read past the end.
template <class Parse>
auto parse_exactly(std::string_view bytes, Parse&& parse_them) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  return parse_them(std::string_view(copy.data(), copy.size()));
}

Parsed parse_request(std::string_view bytes, const HeadLimits& limits = HeadLimits()) {
  return parse_exactly(bytes, [&](std::string_view exact) {
    RequestHead head;
    const ParseResult result = parse(exact, limits, head);
    if (result.parsed == Parsed::complete) {
      fields_lie_in(head, exact);
      for (const std::string_view view : {head.method_text, head.target, head.path, head.host}) lies_in(view, exact);
    }
    if (result.parsed == Parsed::incomplete) RC_ASSERT(bytes.size() < limits.max_bytes);
    return result.parsed;
  });
}

Parsed parse_response(std::string_view bytes, const HeadLimits& limits = HeadLimits()) {
  return parse_exactly(bytes, [&](std::string_view exact) {
    ResponseHead head;
    const ParseResult result = parse(exact, limits, Method::get, head);
    if (result.parsed == Parsed::complete) {
      fields_lie_in(head, exact);
      lies_in(head.reason, exact);
    }
    if (result.parsed == Parsed::incomplete) RC_ASSERT(bytes.size() < limits.max_bytes);
    return result.parsed;
  });
}

RC_GTEST_PROP(HeadProperty, every_prefix_of_a_good_request_is_incomplete_and_the_whole_is_complete, ()) {
  const std::string bytes = drawn_request();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    RC_ASSERT(parse_request(std::string_view(bytes).substr(0, size)) == Parsed::incomplete);
  }
  RC_ASSERT(parse_request(bytes) == Parsed::complete);
  // What follows is not the head's.
  RC_ASSERT(parse_request(bytes + *rc::gen::arbitrary<std::string>()) == Parsed::complete);
}

RC_GTEST_PROP(HeadProperty, every_prefix_of_a_good_response_is_incomplete_and_the_whole_is_complete, ()) {
  const std::string bytes = drawn_response();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    RC_ASSERT(parse_response(std::string_view(bytes).substr(0, size)) == Parsed::incomplete);
  }
  RC_ASSERT(parse_response(bytes) == Parsed::complete);
}

RC_GTEST_PROP(HeadProperty, what_was_refused_once_is_refused_for_good, ()) {
  std::string bytes = drawn_request();
  for (int changes = *rc::gen::inRange(1, 4); changes > 0; --changes) {
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    const char odd = *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("\r\n \t:\0,", 7)));
    if (*rc::gen::arbitrary<bool>()) {
      bytes[at] = odd;
    } else {
      bytes.insert(at, 1, odd);
    }
  }
  bool refused = false;
  bool taken = false;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const Parsed parsed = parse_request(std::string_view(bytes).substr(0, size));
    if (refused) RC_ASSERT(parsed == Parsed::bad);
    if (taken) RC_ASSERT(parsed == Parsed::complete);
    refused = parsed == Parsed::bad;
    taken = parsed == Parsed::complete;
  }
}

RC_GTEST_PROP(HeadProperty, any_bytes_are_safe, (const std::string& bytes)) {
  parse_request(bytes);
  parse_response(bytes);
  parse_request("GET / HTTP/1.1\r\n" + bytes + "\r\n\r\n");
  parse_response("HTTP/1.1 200 OK\r\n" + bytes + "\r\n\r\n");
}

RC_GTEST_PROP(HeadProperty, nothing_longer_than_its_limits_is_taken_or_waited_for, ()) {
  const std::string bytes = drawn_request();
  const HeadLimits limits{.max_bytes = *rc::gen::inRange<std::size_t>(1, 200),
                          .max_fields = *rc::gen::inRange<std::size_t>(0, 10),
                          .max_target = *rc::gen::inRange<std::size_t>(1, 300)};
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const Parsed parsed = parse_request(std::string_view(bytes).substr(0, size), limits);
    if (parsed == Parsed::complete) RC_ASSERT(bytes.size() <= limits.max_bytes);
  }
}

RC_GTEST_PROP(HeadProperty, a_value_is_taken_if_and_only_if_it_has_no_control_characters, (const std::string& value)) {
  RC_PRE(value.find_first_of("\r\n") == std::string::npos);
  const bool text = std::ranges::all_of(value, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
  });
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\nX: 12345678" + value + "\r\n\r\n";
  RC_ASSERT((parse_request(bytes) == Parsed::complete) == text);
}

}  // namespace once::http::head_property_test
