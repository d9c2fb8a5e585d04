// Which traceparents are valid: the rules of W3C Trace Context, section 3.2.
#include "http/trace_context.hpp"

#include <string>

#include <gtest/gtest.h>

namespace once::http::trace_context_test {

constexpr std::string_view trace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, a_valid_one_has_an_id) {
  EXPECT_EQ(trace_id(good), trace);
  EXPECT_EQ(trace_id("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"), trace);
}

TEST(TraceContextTest, a_later_version_may_have_more_behind_it) {
  EXPECT_EQ(trace_id("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), trace);
  EXPECT_EQ(trace_id("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what"), trace);
  EXPECT_EQ(trace_id("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what"), "");
}

TEST(TraceContextTest, what_is_not_valid_has_none) {
  for (const std::string_view bad :
       {"", "00",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     // never a version
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",     // no trace
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",     // no parent
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",     // capitals
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",   // this version has no more
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",      // short
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",     // no hex
        "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     // no hex
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",     // no hex
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902bg-01",     // no hex
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",     // no dash
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",     // no dash
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01"}) {  // no dash
    EXPECT_EQ(trace_id(bad), "") << bad;
  }
}

TEST(TraceContextTest, of_a_request_whose_field_is_there_once) {
  const auto id_of = [](const std::string& fields) {
    const std::string text = "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    RequestHead head;
    EXPECT_EQ(parse(text, HeadLimits(), head).parsed, Parsed::complete);
    return std::string(trace_id(head));
  };
  EXPECT_EQ(id_of("TraceParent: " + good + "\r\n"), trace);
  EXPECT_EQ(id_of(""), "");
  EXPECT_EQ(id_of("traceparent: " + good + "\r\ntraceparent: " + good + "\r\n"), "");
}

}  // namespace once::http::trace_context_test
