// The head of a request as the backend gets it.
#include "gateway/upstream/forward.hpp"

#include <gmock/gmock.h>

namespace once::gateway::forward_test {

using testing::HasSubstr;
using testing::Not;
using Kind = http::Framing::Kind;

std::string forwarded(const std::string& request, const ForwardedHead& as) {
  http::RequestHead head;
  EXPECT_EQ(http::parse(request, http::HeadLimits(), head).parsed, http::Parsed::complete);
  std::string out = "left from before";
  write_forwarded_head(out, head, as);
  return out;
}

const ForwardedHead plainly{.base_path = {}, .authority = "backend:9000", .added_fields = {}, .framing = {}};

TEST(ForwardTest, fields_go_on_byte_for_byte_and_in_order) {
  EXPECT_EQ(
      forwarded("GET /a?b HTTP/1.1\r\nx-Odd:  spaced\t\r\nHost: h\r\nX-Odd: again\r\nCookie: a=b\r\n\r\n", plainly),
      "GET /a?b HTTP/1.1\r\nx-Odd:  spaced\t\r\nHost: h\r\nX-Odd: again\r\nCookie: a=b\r\n\r\n");
}

TEST(ForwardTest, a_session_of_the_dashboard_stays_here) {
  const auto with = [](const std::string& lines) {
    return forwarded("GET / HTTP/1.1\r\nHost: h\r\n" + lines + "A: b\r\n\r\n", plainly);
  };
  const std::string session = "once_admin_session_8081=0123";
  EXPECT_EQ(with("cookie: " + session + "\r\n"), with(""));
  EXPECT_EQ(with("cookie: " + session + "; " + session + "\r\n"), with(""));
  EXPECT_EQ(with("cookie: a=b; " + session + "; c=d\r\n"), with("cookie: a=b; c=d\r\n"));
  EXPECT_EQ(with("Cookie: " + session + ";a=b\r\n"), with("Cookie: a=b\r\n"));
  EXPECT_EQ(with("Cookie: a=b\r\nCookie: " + session + "\r\n"), with("Cookie: a=b\r\n"));
  for (const std::string other : {"x=once_admin_session_8081", "xonce_admin_session_8081=1"}) {
    EXPECT_EQ(with("Cookie: " + other + "\r\n"), with("Cookie: " + other + "\r\n"));
  }
}

TEST(ForwardTest, host_is_written_plainly_however_it_came) {
  for (const std::string line : {"Host:\th", "host:h", "HOST: \t h\t "}) {
    EXPECT_EQ(forwarded("GET / HTTP/1.1\r\nA:\tb\r\n" + line + "\r\nC: d\r\n\r\n", plainly),
              "GET / HTTP/1.1\r\nA:\tb\r\nHost: h\r\nC: d\r\n\r\n");
  }
}

TEST(ForwardTest, the_key_goes_on_and_the_marks_of_once_only_from_once) {
  ForwardedHead as = plainly;
  as.added_fields = FieldsView::of_lines("Idempotency-Attempt: 2\r\nX-Request-Id: ours\r\n");
  EXPECT_EQ(forwarded("POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nidempotency-attempt: 99\r\n"
                      "Idempotency-Fence: 99\r\nIdempotency-Claim: forged\r\nX-REQUEST-ID: theirs\r\n\r\n",
                      as),
            "POST / HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nIdempotency-Attempt: 2\r\nX-Request-Id: ours\r\n\r\n");
}

TEST(ForwardTest, what_belongs_to_the_clients_connection_stays_there) {
  EXPECT_EQ(forwarded("GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
                      "Proxy-Connection: keep-alive\r\nProxy-Authorization: secret\r\nTE: trailers\r\nTrailer: X\r\n"
                      "Upgrade: websocket\r\nAuthorization: kept\r\n\r\n",
                      plainly),
            "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: kept\r\n\r\n");
}

TEST(ForwardTest, connection_cannot_remove_host) {
  EXPECT_THAT(forwarded("GET / HTTP/1.1\r\nHost: h\r\nConnection: Host\r\n\r\n", plainly), HasSubstr("Host: h\r\n"));
}

TEST(ForwardTest, the_body_is_framed_by_us_and_once) {
  struct Case {
    http::Framing framing;
    std::string_view field;
  };
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string sized = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";
  for (const auto& [framing, field] :
       {Case{{.kind = Kind::none}, ""}, Case{{.kind = Kind::length, .length = 0}, "Content-Length: 0\r\n"},
        Case{{.kind = Kind::length, .length = 77}, "Content-Length: 77\r\n"},
        Case{{.kind = Kind::chunked}, "Transfer-Encoding: chunked\r\n"}}) {
    ForwardedHead as = plainly;
    as.framing = framing;
    for (const std::string& request : {chunked, sized}) {
      EXPECT_EQ(forwarded(request, as), std::string("POST / HTTP/1.1\r\nHost: h\r\n").append(field).append("\r\n"));
    }
  }
}

TEST(ForwardTest, the_path_of_the_upstream_comes_first) {
  ForwardedHead as = plainly;
  as.base_path = "/base";
  EXPECT_THAT(forwarded("GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n", as), HasSubstr("GET /base/a HTTP/1.1\r\n"));
}

TEST(ForwardTest, a_prefix_of_whole_segments_is_taken_off_first) {
  ForwardedHead as = plainly;
  as.base_path = "/base";
  as.strip_prefix = "/api";
  struct Case {
    std::string sent;
    std::string arrives;
  };
  for (const auto& [sent, arrives] :
       {Case{"/api/v1?a=/api", "/base/v1?a=/api"}, Case{"/api", "/base/"}, Case{"/api/", "/base/"},
        Case{"/api?x", "/base/?x"}, Case{"/apis/v1", "/base/apis/v1"}, Case{"/v1/api", "/base/v1/api"},
        Case{"/api//v1", "/base//v1"}, Case{"/API/v1", "/base/API/v1"}}) {
    EXPECT_THAT(forwarded("GET " + sent + " HTTP/1.1\r\nHost: h\r\n\r\n", as),
                HasSubstr("GET " + arrives + " HTTP/1.1\r\n"));
  }
}

TEST(ForwardTest, the_host_can_be_another_one) {
  ForwardedHead as = plainly;
  as.host = "api.internal";
  EXPECT_EQ(forwarded("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n", as),
            "GET / HTTP/1.1\r\nA: b\r\nHost: api.internal\r\n\r\n");
  EXPECT_EQ(forwarded("GET / HTTP/1.0\r\n\r\n", as), "GET / HTTP/1.1\r\nHost: api.internal\r\n\r\n");
}

TEST(ForwardTest, a_client_of_1_0_without_host_gets_one) {
  EXPECT_EQ(forwarded("GET / HTTP/1.0\r\n\r\n", plainly), "GET / HTTP/1.1\r\nHost: backend:9000\r\n\r\n");
  EXPECT_EQ(forwarded("GET / HTTP/1.0\r\nHost: h\r\n\r\n", plainly), "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
}

TEST(ForwardTest, expect_goes_on_only_where_the_body_waits_for_it) {
  const std::string request = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
  EXPECT_THAT(forwarded(request, plainly), Not(HasSubstr("Expect")));
  ForwardedHead as = plainly;
  as.forward_expect = true;
  EXPECT_THAT(forwarded(request, as), HasSubstr("Expect: 100-continue\r\n"));
}

TEST(ForwardTest, via_is_one_hop_more) {
  ForwardedHead as = plainly;
  as.via = "once";
  EXPECT_EQ(forwarded("GET / HTTP/1.1\r\nHost: h\r\nVia: 2 edge\r\n\r\n", as),
            "GET / HTTP/1.1\r\nHost: h\r\nVia: 2 edge\r\nVia: 1.1 once\r\n\r\n");
  EXPECT_EQ(forwarded("GET / HTTP/1.0\r\nHost: h\r\n\r\n", as), "GET / HTTP/1.1\r\nHost: h\r\nVia: 1.0 once\r\n\r\n");
}

TEST(ForwardTest, an_options_may_be_passed_on_once_less) {
  const std::string options = "OPTIONS * HTTP/1.1\r\nHost: h\r\nMax-Forwards: ";
  EXPECT_THAT(forwarded(options + "10\r\n\r\n", plainly), HasSubstr("Max-Forwards: 9\r\n"));
  EXPECT_THAT(forwarded(options + "1\r\n\r\n", plainly), HasSubstr("Max-Forwards: 0\r\n"));
  EXPECT_THAT(forwarded("GET / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 10\r\n\r\n", plainly),
              HasSubstr("Max-Forwards: 10\r\n"));
}

TEST(ForwardTest, an_upgrade_goes_on_only_where_it_can_be_served) {
  const std::string request =
      "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
  EXPECT_THAT(forwarded(request, plainly), Not(HasSubstr("pgrade")));
  ForwardedHead as = plainly;
  as.upgrade = "websocket";
  EXPECT_EQ(forwarded(request, as), "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
}

}  // namespace once::gateway::forward_test
