// What backends are told of where a request came from.
#include "gateway/identity/origin.hpp"

#include <gtest/gtest.h>

#include "gateway/upstream/forward.hpp"

namespace once::gateway::origin_test {

http::AddressSet proxies(std::initializer_list<std::string_view> networks) {
  http::AddressSet set;
  for (const std::string_view network : networks) EXPECT_TRUE(set.add(network));
  return set;
}

// The fields of a forwarded request behind its Host, one a line.
std::string told(const Origin& origin, ForwardedFields fields, const std::string& sent = "") {
  http::RequestHead head;
  const std::string request = "GET / HTTP/1.1\r\nHost: api.test:8080\r\n" + sent + "\r\n";
  EXPECT_EQ(http::parse(request, http::HeadLimits(), head).parsed, http::Parsed::complete);
  std::string out;
  write_forwarded_head(out, head,
                       {.base_path = {},
                        .authority = "backend",
                        .added_fields = {},
                        .framing = {},
                        .origin = &origin,
                        .forwarded = fields});
  constexpr std::string_view begin = "GET / HTTP/1.1\r\nHost: api.test:8080\r\n";
  EXPECT_TRUE(out.starts_with(begin)) << out;
  return out.substr(begin.size(), out.size() - begin.size() - 2);
}

Origin from(std::string_view peer, const http::AddressSet& trusted = {},
            Origin::Transport transport = Origin::Transport::plain) {
  Origin origin(peer, transport);
  origin.trust(trusted);
  return origin;
}

using enum ForwardedFields;

const std::string spoofed =
    "X-Forwarded-For: 6.6.6.6\r\nx-forwarded-proto: gopher\r\nX-Forwarded-Host: evil.test\r\nForwarded: "
    "for=6.6.6.6\r\n";

TEST(OriginTest, a_client_is_named_by_its_address) {
  EXPECT_EQ(told(from("10.1.2.3"), x_forwarded),
            "X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: api.test:8080\r\n");
  EXPECT_EQ(told(from("10.1.2.3", {}, Origin::Transport::tls), forwarded),
            "Forwarded: for=10.1.2.3;proto=https;host=\"api.test:8080\"\r\n");
  EXPECT_EQ(told(from("2001:db8::1"), both),
            "X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: api.test:8080\r\n"
            "Forwarded: for=\"[2001:db8::1]\";proto=http;host=\"api.test:8080\"\r\n");
  EXPECT_EQ(told(from("10.1.2.3"), off), "");
}

TEST(OriginTest, what_a_client_says_of_itself_goes_nowhere) {
  for (const ForwardedFields fields : {x_forwarded, forwarded, both}) {
    EXPECT_EQ(told(from("10.1.2.3"), fields, spoofed), told(from("10.1.2.3"), fields));
  }
  EXPECT_EQ(told(from("10.1.2.3"), off, spoofed), spoofed) << "as if Once knew nothing of it";
}

TEST(OriginTest, what_a_trusted_proxy_says_stands_before_the_proxy) {
  const http::AddressSet trusted = proxies({"10.0.0.0/8"});
  const std::string sent =
      "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.test\r\nX-Forwarded-For: "
      "2.2.2.2, "
      "3.3.3.3\r\n";
  EXPECT_EQ(told(from("10.1.2.3", trusted), x_forwarded, sent),
            "X-Forwarded-Proto: https\r\nX-Forwarded-Host: shop.test\r\n"
            "X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3, 10.1.2.3\r\n");
  EXPECT_EQ(told(from("11.1.2.3", trusted), x_forwarded, sent), told(from("11.1.2.3"), x_forwarded))
      << "another address, not trusted";
  EXPECT_EQ(told(from("10.1.2.3", trusted), x_forwarded),
            "X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: api.test:8080\r\n")
      << "it may say nothing";
  EXPECT_EQ(told(from("10.1.2.3", trusted), forwarded, "Forwarded: for=1.1.1.1;proto=https\r\n"),
            "Forwarded: for=1.1.1.1;proto=https, for=10.1.2.3;proto=http;host=\"api.test:8080\"\r\n");
}

TEST(OriginTest, the_kind_that_is_not_written_is_kept_from_a_trusted_proxy_alone) {
  const http::AddressSet trusted = proxies({"10.1.2.3"});
  EXPECT_EQ(told(from("10.1.2.3", trusted), x_forwarded, "Forwarded: for=1.1.1.1\r\n"),
            "Forwarded: for=1.1.1.1\r\n" + told(from("10.1.2.3", trusted), x_forwarded));
  EXPECT_EQ(told(from("10.1.2.3", trusted), forwarded, "X-Forwarded-For: 1.1.1.1\r\n"),
            "X-Forwarded-For: 1.1.1.1\r\n" + told(from("10.1.2.3", trusted), forwarded));
}

TEST(OriginTest, who_comes_over_a_unix_socket_has_no_address) {
  EXPECT_EQ(told(from("unix"), x_forwarded, spoofed), "X-Forwarded-Proto: http\r\nX-Forwarded-Host: api.test:8080\r\n");
  EXPECT_EQ(told(from("unix"), forwarded), "Forwarded: for=unknown;proto=http;host=\"api.test:8080\"\r\n");
  EXPECT_EQ(told(from("unix", proxies({"unix"})), x_forwarded, "X-Forwarded-For: 1.1.1.1\r\n"),
            "X-Forwarded-For: 1.1.1.1, unknown\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: api.test:8080\r\n");
}

}  // namespace once::gateway::origin_test
