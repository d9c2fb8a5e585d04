// Heads of responses: status lines, and how their bodies are framed.
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/head.hpp"

namespace once::http {

// For gtest's messages.
void PrintTo(HeadError error, std::ostream* out);

namespace response_head_test {

using enum HeadError;
using Kind = Framing::Kind;

const HeadLimits limits;

std::string response(std::string_view line, std::string_view fields = "") {
  return std::string(line).append("\r\n").append(fields).append("\r\n");
}

TEST(ResponseHeadTest, status_lines) {
  struct Case {
    std::string_view line;
    int status;  // 0: refused
    std::string_view reason;
    HeadError error = bad_status_line;
  };
  for (const Case& each : std::vector<Case>{{"HTTP/1.1 200 OK", 200, "OK"},
                                            {"HTTP/1.0 404 Not Found", 404, "Not Found"},
                                            {"HTTP/1.1 200 ", 200, ""},
                                            {"HTTP/1.1 200", 200, ""},
                                            {"HTTP/1.1 599 \xe4\t", 599, "\xe4\t"},
                                            {"HTTP/1.1 99 Low", 0, ""},
                                            {"HTTP/1.1 099 Low", 502, ""},
                                            {"HTTP/1.1 600 High", 502, ""},
                                            {"HTTP/1.1 999", 502, ""},
                                            {"HTTP/1.1 999 a\x01", 0, ""},
                                            {"HTTP/1.1 2000 Long", 0, ""},
                                            {"HTTP/1.1 20 Short", 0, ""},
                                            {"HTTP/1.1 2x0 OK", 0, ""},
                                            {"HTTP/1.1  200 OK", 0, ""},
                                            {"HTTP/1.1 200OK", 0, ""},
                                            {"HTTP/1.1\t200 OK", 0, ""},
                                            {"HTTP/1.1 200 a\x01", 0, ""},
                                            {"", 0, ""},
                                            {"HTTP/2.0 200 OK", 0, "", bad_version},
                                            {"http/1.1 200 OK", 0, "", bad_status_line},
                                            {"ICY /1.1 200 OK", 0, "", bad_status_line}}) {
    ResponseHead head;
    const std::string bytes = response(each.line, "Content-Length: 0\r\n");
    const ParseResult result = parse(bytes, limits, Method::get, head);
    EXPECT_EQ(result.parsed, each.status != 0 ? Parsed::complete : Parsed::bad) << each.line;
    if (each.status == 0) {
      EXPECT_EQ(result.error, each.error) << each.line;
      continue;
    }
    EXPECT_EQ(head.status, each.status);
    EXPECT_EQ(head.reason, each.reason);
  }
}

TEST(ResponseHeadTest, framing_for_every_status_and_method) {
  for (const Method method : {Method::get, Method::head, Method::post, Method::put, Method::delete_, Method::options}) {
    for (int status = 100; status <= 599; ++status) {
      const bool no_body = method == Method::head || status < 200 || status == 204 || status == 304;
      struct Case {
        std::string_view fields;
        Kind kind;
      };
      for (const auto& [fields, kind] :
           {Case{"Content-Length: 3\r\n", Kind::length}, Case{"Transfer-Encoding: chunked\r\n", Kind::chunked},
            Case{"", Kind::until_close}}) {
        ResponseHead head;
        const std::string bytes = response("HTTP/1.1 " + std::to_string(status) + " x", fields);
        ASSERT_EQ(parse(bytes, limits, method, head).parsed, Parsed::complete);
        EXPECT_EQ(head.framing.kind, no_body ? Kind::none : kind) << status << fields;
        EXPECT_EQ(head.framing.length, kind == Kind::length && !no_body ? 3U : 0U);
        // A body that only the end of the connection ends is the last one on it.
        const bool last = !no_body && kind == Kind::until_close;
        EXPECT_EQ(head.persistence, last ? Persistence::close : Persistence::keep) << status << fields;
      }
    }
  }
}

TEST(ResponseHeadTest, the_same_length_several_times_is_one_length) {
  for (const std::string_view lengths :
       {"content-length: 5\r\nX: y\r\nContent-Length: 5\r\nCONTENT-LENGTH: 5\r\n", "Content-Length: 5, 5\r\nX: y\r\n",
        "Content-Length: 5\r\nX: y\r\nContent-Length: 5 ,\t5\r\n"}) {
    ResponseHead head;
    const std::string bytes = response("HTTP/1.1 200 OK", lengths);
    ASSERT_EQ(parse(bytes, limits, Method::get, head).parsed, Parsed::complete) << bytes;
    EXPECT_EQ(head.framing.kind, Kind::length);
    EXPECT_EQ(head.framing.length, 5U);
    ASSERT_EQ(head.fields.size(), 2U) << bytes;
    EXPECT_EQ(head.find("Content-Length"), "5");
    EXPECT_EQ(head.find("X"), "y");
  }
}

TEST(ResponseHeadTest, ambiguous_framing_is_refused) {
  const auto refused = [](HeadError error, std::string_view line, std::initializer_list<std::string_view> all) {
    for (const std::string_view fields : all) {
      ResponseHead head;
      const ParseResult result = parse(response(line, std::string(fields) + "\r\n"), limits, Method::get, head);
      ASSERT_EQ(result.parsed, Parsed::bad) << fields;
      EXPECT_EQ(result.error, error) << fields;
    }
  };
  refused(bad_framing, "HTTP/1.1 200 OK",
          {"Content-Length: 5\r\nTransfer-Encoding: chunked", "Content-Length: 5\r\nContent-Length: 6",
           "Content-Length: 5\r\nContent-Length: 5, 6", "Content-Length: 5, ", "Content-Length: 5, 05",
           "Content-Length: a, a", "Content-Length: ,", "Content-Length: 5, 5\r\nTransfer-Encoding: chunked",
           "Content-Length: a", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"});
  refused(bad_framing, "HTTP/1.0 200 OK", {"Transfer-Encoding: chunked"});
  refused(unsupported_coding, "HTTP/1.1 200 OK", {"Transfer-Encoding: gzip, chunked"});
  refused(bad_field, "HTTP/1.1 200 OK", {"X: a\nY: b", " X: a"});
}

}  // namespace response_head_test
}  // namespace once::http
