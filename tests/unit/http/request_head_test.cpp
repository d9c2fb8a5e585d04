// Heads of requests: what is taken, what is refused and as what.
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "http/head.hpp"

namespace once::http {

// For gtest's messages.
void PrintTo(HeadError error, std::ostream* out) {
  *out << describe(error);
}

namespace request_head_test {

using enum HeadError;
using Kind = Framing::Kind;

const HeadLimits limits;

std::string request(std::string_view line, std::string_view fields = "Host: a\r\n") {
  return std::string(line).append("\r\n").append(fields).append("\r\n");
}
std::string post(std::string_view fields) {
  return request("POST / HTTP/1.1", std::string("Host: a\r\n").append(fields));
}
struct Refused {
  std::string bytes;
  HeadError error;
};

const std::string control_characters = [] {
  std::string all;
  for (char c = 0; c < 0x20; ++c) {
    if (c != '\t') all.push_back(c);
  }
  return all + '\x7f';
}();

TEST(RequestHeadTest, an_ordinary_request) {
  const std::string bytes = request("POST /a/b?c=d&e HTTP/1.1",
                                    "Host: example.com:8080\r\nX-Empty:\r\nX-Spaced: \t a b\t \r\n"
                                    "Content-Length: 12\r\nX-Bytes: \x80\xff\r\n") +
                            "the body";
  RequestHead head;
  ASSERT_EQ(parse(bytes, limits, head).parsed, Parsed::complete);
  EXPECT_EQ(head.method, Method::post);
  EXPECT_EQ(head.method_text, "POST");
  EXPECT_EQ(head.target, "/a/b?c=d&e");
  EXPECT_EQ(head.path, "/a/b");
  EXPECT_EQ(head.host, "example.com:8080");
  EXPECT_EQ(head.version, Version::http_1_1);
  EXPECT_EQ(head.size, bytes.size() - 8);
  EXPECT_EQ(head.framing.kind, Kind::length);
  EXPECT_EQ(head.framing.length, 12U);
  EXPECT_EQ(head.persistence, Persistence::keep);
  ASSERT_EQ(head.fields.size(), 5U);
  EXPECT_EQ(head.fields[1].value, "");
  EXPECT_EQ(head.fields[2].value, "a b");
  EXPECT_EQ(head.fields[2].line, "X-Spaced: \t a b\t \r\n");
  EXPECT_EQ(head.find("x-bytes"), "\x80\xff");
  EXPECT_EQ(head.find("X-Byte"), std::nullopt);
}

TEST(RequestHeadTest, what_is_taken) {
  const std::vector<std::string> good = {request("GET / HTTP/1.1"),
                                         request("GET /%20~!$&'()*+,;=:@ HTTP/1.1"),
                                         request("OPTIONS * HTTP/1.1"),
                                         request("WHATEVER / HTTP/1.1"),
                                         request("G!#$%&'*+-.^_`|~0 / HTTP/1.1"),
                                         request("GET / HTTP/1.0", ""),
                                         request("GET / HTTP/1.1", "host: [::1]:80\r\n"),
                                         request("GET http://a/b HTTP/1.1"),
                                         request("GET HTTP://A/b HTTP/1.1"),
                                         post("Content-Length: 0\r\n"),
                                         post("Content-Length: 007\r\n"),
                                         post("Content-Length: 999999999999999999\r\n"),
                                         post("Content-Length:\t5 \r\n"),
                                         post("Transfer-Encoding: chunked\r\n"),
                                         post("TRANSFER-ENCODING:CHUNKED\r\n"),
                                         post("X: a:b: c\r\n"),
                                         post("X: \r\n")};
  for (const std::string& bytes : good) {
    RequestHead head;
    EXPECT_EQ(parse(bytes, limits, head).parsed, Parsed::complete) << bytes;
  }
}

std::vector<Refused> refused_requests() {
  const auto nul = std::string(1, '\0');
  std::vector<Refused> all;
  // Request lines in front of an ordinary Host, what stands instead of that, and fields behind it.
  const auto lines = [&all](HeadError error, const std::vector<std::string>& refused) {
    for (const std::string& line : refused) all.push_back({request(line), error});
  };
  const auto hosts = [&all](std::string_view line, const std::vector<std::string>& refused) {
    for (const std::string& fields : refused) all.push_back({request(line, fields + "\r\n"), bad_host});
  };
  const auto fields = [&all](HeadError error, const std::vector<std::string>& refused) {
    for (const std::string& field : refused) all.push_back({post(field + "\r\n"), error});
  };
  lines(bad_request_line, {"",
                           "GET",
                           "GET /",
                           " GET / HTTP/1.1",
                           "GET  / HTTP/1.1",
                           "GET /  HTTP/1.1",
                           "GET / HTTP/1.1 ",
                           "GET /a b HTTP/1.1",
                           "GET\t/\tHTTP/1.1",
                           "GE(T / HTTP/1.1",
                           "GET /a#b HTTP/1.1",
                           "GET /\x80 HTTP/1.1",
                           "GET /" + nul + " HTTP/1.1",
                           "GET a HTTP/1.1",
                           "GET * HTTP/1.1",
                           "GET http:// HTTP/1.1",
                           "GET http://:80/ HTTP/1.1",
                           "GET http:/a HTTP/1.1",
                           "GET ftp://a/ HTTP/1.1",
                           "GET http:/// HTTP/1.1",
                           "\r\nGET / HTTP/1.1",
                           "GET / http/1.1",
                           "GET / HTTP/1.10",
                           "GET / HTTP/01.1",
                           "GET / HTTP/1",
                           "GET / "});
  lines(unsupported_method, {"CONNECT a:443 HTTP/1.1", "CONNECT / HTTP/1.1", "TRACE / HTTP/1.1"});
  lines(bad_version, {"GET / HTTP/3.0", "GET / HTTP/0.9", "GET / HTTP/2.0", "PRI * HTTP/2.0"});
  lines(bad_host, {"GET http://./ HTTP/1.1", "GET http://u@a/ HTTP/1.1"});
  hosts("GET / HTTP/1.1",
        {"Host:", "Host: a\r\nHost: a", "Host: a\r\nhost: b\r\nHOST: c", "Host: :80", "Host: :", "Host: .",
         "Host: .:443", "Host: a b", "Host: a/b", "Host: u@a", "Host: a?b", "Host: \xc3\xa4"});
  hosts("GET / HTTP/1.0", {"Host: \t", "Host: a\r\nHost: a"});
  hosts("GET http://a/ HTTP/1.1", {"Host:"});
  all.push_back({request("GET / HTTP/1.1", ""), bad_host});
  all.push_back({request("GET http://b/ HTTP/1.1", ""), bad_host});
  all.push_back({request("GET / HTTP/1.1", " Host: a\r\n"), bad_field});
  fields(bad_field,
         {"X : a", "X\t: a", " X: a", "X: a\r\n folded", "X: a\r\n\tfolded", "X", ": a", "X(: a", "X\x80: a",
          nul + "X: a", "Content-Length : 5", "Transfer-Encoding : chunked", "X: a\nY: b", "X: a\rY: b", "X: a\r"});
  fields(bad_framing, {"Content-Length: 5\r\nTransfer-Encoding: chunked",
                       "Transfer-Encoding: chunked\r\nContent-Length: 5",
                       "Content-Length: 5\r\nContent-Length: 5",
                       "Content-Length: 5\r\nContent-Length: 6\r\nContent-Length: 5",
                       "Content-Length:",
                       "Content-Length: +5",
                       "Content-Length: -5",
                       "Content-Length: 5,5",
                       "Content-Length: 5, 5",
                       "Content-Length: 5 5",
                       "Content-Length: 0x5",
                       "Content-Length: 5.0",
                       "Content-Length: \"5\"",
                       "Content-Length: 9999999999999999999",
                       "Content-Length: 18446744073709551621",
                       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                       "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
                       "Transfer-Encoding:",
                       "Transfer-Encoding: identity",
                       "Transfer-Encoding: gzip",
                       "Transfer-Encoding: chunked, gzip",
                       "Transfer-Encoding: chunked, chunked",
                       "Transfer-Encoding: chunked,",
                       "Transfer-Encoding: ,chunked",
                       "Transfer-Encoding: chunked;a=b",
                       "Transfer-Encoding: \"chunked\"",
                       "Transfer-Encoding: xchunked",
                       "Transfer-Encoding: chunke"});
  fields(unsupported_coding, {"Transfer-Encoding: gzip, chunked"});
  all.push_back({request("POST / HTTP/1.0", "Host: a\r\nTransfer-Encoding: chunked\r\n"), bad_framing});
  for (const char c : control_characters) {
    if (c == '\r' || c == '\n') continue;
    for (const std::string_view filler : {"", "1234567", "12345678", "a longer value in front of it"}) {
      all.push_back({post(std::string("X: ").append(filler).append(1, c).append("a\r\n")), bad_field});
    }
  }
  return all;
}

TEST(RequestHeadTest, urls_with_and_without_a_path) {
  struct Form {
    std::string_view line, target, host;
    TargetScheme scheme;
  };
  for (const Form& form : std::vector<Form>{{"GET http://b/c?d HTTP/1.1", "/c?d", "b", TargetScheme::http},
                                            {"GET HTTPS://b:443 HTTP/1.1", "/", "b:443", TargetScheme::https},
                                            {"GET http://b?c HTTP/1.1", "/?c", "b", TargetScheme::http},
                                            {"OPTIONS http://b HTTP/1.1", "*", "b", TargetScheme::http},
                                            {"OPTIONS http://b/ HTTP/1.1", "/", "b", TargetScheme::http},
                                            {"GET //b/c HTTP/1.2", "//b/c", "a", TargetScheme::none}}) {
    RequestHead head;
    const std::string bytes = request(std::string(form.line));
    ASSERT_EQ(parse(bytes, limits, head).parsed, Parsed::complete) << form.line;
    EXPECT_EQ(head.target, form.target) << form.line;
    EXPECT_EQ(head.path, form.target.substr(0, form.target.find('?'))) << form.line;
    EXPECT_EQ(head.host, form.host) << form.line;
    EXPECT_EQ(head.scheme, form.scheme) << form.line;
    EXPECT_EQ(head.version, Version::http_1_1) << form.line;
  }
}

TEST(RequestHeadTest, a_head_that_comes_byte_by_byte_is_parsed_once_a_line) {
  const std::string bytes = post("X: " + std::string(2000, 'y') + "\r\nZ: 1\r\n");
  HeadProgress progress;
  std::size_t worth = 0;
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    const bool parse_now = progress.worth_parsing(std::string_view(bytes).substr(0, size), limits);
    EXPECT_EQ(parse_now, bytes[size - 1] == '\n');
    worth += parse_now ? 1 : 0;
  }
  EXPECT_EQ(worth, static_cast<std::size_t>(std::ranges::count(bytes, '\n')));
}

TEST(RequestHeadTest, a_limit_that_is_passed_is_worth_parsing) {
  const std::string endless(40'000, 'x');
  HeadProgress progress;
  std::size_t size = 1;
  while (!progress.worth_parsing(std::string_view(endless).substr(0, size), limits)) ++size;
  RequestHead head;
  EXPECT_EQ(parse(std::string_view(endless).substr(0, size), limits, head).error, target_too_long);
}

TEST(RequestHeadTest, what_is_refused_and_as_what) {
  for (const auto& [bytes, error] : refused_requests()) {
    RequestHead head;
    const ParseResult result = parse(bytes, limits, head);
    EXPECT_EQ(result.parsed, Parsed::bad) << testing::PrintToString(bytes);
    if (result.parsed == Parsed::bad) EXPECT_EQ(result.error, error) << testing::PrintToString(bytes);
  }
}

TEST(RequestHeadTest, no_prefix_of_what_is_refused_is_taken) {
  for (const auto& [bytes, error] : refused_requests()) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      RequestHead head;
      ASSERT_NE(parse(std::string_view(bytes).substr(0, size), limits, head).parsed, Parsed::complete)
          << testing::PrintToString(bytes) << " cut to " << size;
    }
  }
}

TEST(RequestHeadTest, bare_line_ends_are_not_waited_for) {
  for (const std::string_view bytes :
       {"GET / HTTP/1.1\n", "GET / HTTP/1.1\nHost: a\n\n", "\n", "GET / HTTP/1.1\r\nHost: a\n", "GET / \rHTTP",
        "GET / HTTP/1.1\r\n\n", "GET / HTTP/1.1\r\nHost: a\r\n\rx"}) {
    RequestHead head;
    EXPECT_EQ(parse(bytes, limits, head).parsed, Parsed::bad) << testing::PrintToString(bytes);
  }
}

TEST(RequestHeadTest, limits_are_exact) {
  RequestHead head;
  const std::string bytes = request("GET /1234567 HTTP/1.1", "Host: a\r\nX: 1\r\n");
  const auto with = [&](const HeadLimits& some) { return parse(bytes, some, head); };
  EXPECT_EQ(with({.max_bytes = bytes.size(), .max_fields = 2, .max_target = 8}).parsed, Parsed::complete);
  EXPECT_EQ(with({.max_bytes = bytes.size() - 1}).error, too_large);
  EXPECT_EQ(with({.max_bytes = bytes.size(), .max_fields = 1}).error, too_many_fields);
  EXPECT_EQ(with({.max_bytes = bytes.size(), .max_target = 7}).error, target_too_long);
}

// Whoever reads on after `incomplete` must have room for it.
TEST(RequestHeadTest, a_head_as_long_as_its_limit_is_never_waited_for) {
  for (const HeadLimits some : {HeadLimits{.max_bytes = 100, .max_target = 50}, HeadLimits{.max_bytes = 100}}) {
    for (const std::string& bytes : {std::string(100, 'a'), "GET /" + std::string(95, 'a'),
                                     request("GET / HTTP/1.1").substr(0, 20) + std::string(80, 'a'),
                                     "GET / HTTP/1.1\r\nHost: " + std::string(78, 'a')}) {
      RequestHead head;
      ASSERT_EQ(bytes.size(), 100U);
      EXPECT_EQ(parse(bytes, some, head).parsed, Parsed::bad) << bytes;
    }
  }
  RequestHead head;
  EXPECT_EQ(parse("GET /" + std::string(200, 'a'), HeadLimits{.max_target = 100}, head).error, target_too_long);
}

TEST(RequestHeadTest, persistence_is_as_both_versions_say) {
  struct Case {
    std::string_view version;
    std::string_view connection;
    Persistence persistence;
  };
  for (const Case& each : std::vector<Case>{{"1.1", "", Persistence::keep},
                                            {"1.1", "Connection: keep-alive\r\n", Persistence::keep},
                                            {"1.1", "Connection: close\r\n", Persistence::close},
                                            {"1.1", "Connection: Close\r\n", Persistence::close},
                                            {"1.1", "connection: a, close ,b\r\n", Persistence::close},
                                            {"1.1", "Connection: closed\r\n", Persistence::keep},
                                            {"1.1", "Connection: a\r\nConnection: close\r\n", Persistence::close},
                                            {"1.1", "Connection: close, keep-alive\r\n", Persistence::close},
                                            {"1.0", "", Persistence::close},
                                            {"1.0", "Connection: Keep-Alive\r\n", Persistence::keep},
                                            {"1.0", "Connection: keep-alive, close\r\n", Persistence::close}}) {
    RequestHead head;
    const std::string bytes =
        request(std::string("GET / HTTP/").append(each.version), std::string("Host: a\r\n").append(each.connection));
    ASSERT_EQ(parse(bytes, limits, head).parsed, Parsed::complete);
    EXPECT_EQ(head.persistence, each.persistence) << bytes;
  }
}

TEST(RequestHeadTest, fields_named_by_connection_belong_to_it) {
  RequestHead head;
  const std::string bytes =
      post("Connection: x-one, close\r\nX-One: 1\r\nConnection: X-Two\r\nX-Two: 2\r\nX-Three: 3\r\n");
  ASSERT_EQ(parse(bytes, limits, head).parsed, Parsed::complete);
  for (const std::string_view name : {"X-One", "x-two", "Connection", "TE", "Keep-Alive", "Upgrade", "close"}) {
    EXPECT_TRUE(head.hop_by_hop(name)) << name;
  }
  for (const std::string_view name : {"X-Three", "Host", "X-On"}) EXPECT_FALSE(head.hop_by_hop(name)) << name;
}

TEST(RequestHeadTest, nobody_tunnels_http_2_past_the_gateway) {
  RequestHead head;
  for (const char* value : {"h2c", "H2C", "websocket, h2c"}) {
    const std::string bytes =
        post(std::string("Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: x\r\nUpgrade: ") + value + "\r\n");
    ASSERT_EQ(parse(bytes, limits, head).parsed, Parsed::complete);
    EXPECT_FALSE(head.upgrade) << value;
    EXPECT_TRUE(head.hop_by_hop("HTTP2-Settings"));
  }
}

TEST(RequestHeadTest, upgrade_and_expect_are_of_version_1_1) {
  const std::string asks = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nExpect: 100-Continue\r\n";
  for (const bool current : {true, false}) {
    RequestHead head;
    ASSERT_EQ(parse(request(current ? "GET / HTTP/1.1" : "GET / HTTP/1.0", asks), limits, head).parsed,
              Parsed::complete);
    EXPECT_EQ(head.upgrade, current);
    EXPECT_EQ(head.expects_continue, current);
  }
  RequestHead head;
  ASSERT_EQ(parse(post("Upgrade: websocket\r\nExpect: something\r\n"), limits, head).parsed, Parsed::complete);
  EXPECT_FALSE(head.upgrade);
  EXPECT_FALSE(head.expects_continue);
}

TEST(RequestHeadTest, a_head_that_is_used_again_remembers_nothing) {
  RequestHead head;
  const std::string first = post("Connection: close, X-A\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n");
  ASSERT_EQ(parse(first, limits, head).parsed, Parsed::complete);
  const std::string second = request("GET / HTTP/1.1");
  ASSERT_EQ(parse(second, limits, head).parsed, Parsed::complete);
  EXPECT_EQ(head.framing.kind, Kind::none);
  EXPECT_EQ(head.persistence, Persistence::keep);
  EXPECT_FALSE(head.expects_continue);
  EXPECT_FALSE(head.hop_by_hop("X-A"));
  EXPECT_EQ(head.fields.size(), 1U);
}

// Commas alone count, too: 32 KiB of them would be compared with every other field.
TEST(RequestHeadTest, connection_names_so_many_fields_and_no_more) {
  RequestHead head;
  EXPECT_EQ(parse(post("Connection: " + std::string(63, ',') + "close\r\n"), limits, head).parsed, Parsed::complete);
  EXPECT_EQ(head.persistence, Persistence::close);
  for (const std::string& fields :
       {"Connection: a" + std::string(31'500, ',') + "\r\n",
        "Connection: " + std::string(40, ',') + "\r\nConnection: " + std::string(40, ',') + "\r\n"}) {
    RequestHead refused;
    const ParseResult parsed = parse(post(fields), {.max_bytes = 65'536}, refused);
    EXPECT_EQ(parsed.parsed, Parsed::bad);
    EXPECT_EQ(parsed.error, HeadError::too_many_fields);
  }
}

}  // namespace request_head_test
}  // namespace once::http
