// Which host a key belongs to, and who may say so.
#include "gateway/identity/host.hpp"

#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "gateway/identity/scope.hpp"

namespace once::gateway {

class AskedHostTest : public testing::Test {
 protected:
  // What a key is bound to, of a request with these fields.
  std::string host(const std::string& fields, PeerTrust peer = PeerTrust::client,
                   const std::string& version = "HTTP/1.1") {
    const std::string text = "POST / " + version + "\r\n" + fields + "\r\n";
    http::RequestHead head;
    EXPECT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete) << fields;
    const AskedHost asked(head, names_, peer);
    const auto& [host, x_forwarded, forwarded] = asked.parts();
    return std::string(host) + "|" + std::string(x_forwarded) + "|" + std::string(forwarded);
  }

  HostNames names_;
};

TEST_F(AskedHostTest, is_the_host_however_it_is_spelled) {
  EXPECT_EQ(host("Host: a.example\r\n"), "a.example||");
  EXPECT_EQ(host("HOST: A.Example.:80\r\n"), "a.example||");
  EXPECT_EQ(host("Host: a.example:8080\r\n"), "a.example:8080||");
}

TEST_F(AskedHostTest, without_a_host) {
  EXPECT_EQ(host("", PeerTrust::client, "HTTP/1.0"), " ||");
  names_ = HostNames({"*"});
  EXPECT_EQ(host("", PeerTrust::client, "HTTP/1.0"), host("Host: a\r\n"));
}

TEST_F(AskedHostTest, what_a_client_says_of_another_host_does_not_count) {
  EXPECT_EQ(host("Host: a\r\nX-Forwarded-Host: b\r\nForwarded: host=c\r\n"), "a||");
}

TEST_F(AskedHostTest, what_a_trusted_proxy_says_counts_beside_its_own_host) {
  const auto proxied = [this](const std::string& fields) {
    return host("Host: inner\r\n" + fields, PeerTrust::trusted_proxy);
  };
  EXPECT_EQ(proxied(""), "inner||");
  EXPECT_EQ(proxied("X-Forwarded-Host: A.example:443\r\n"), "inner|a.example\n|");
  EXPECT_EQ(proxied("X_Forwarded_Host: a\r\n"), "inner|a\n|") << "a backend may not tell them apart";
  EXPECT_EQ(proxied("X-Forwarded-Host: a, B\r\nx-forwarded-host: c\r\n"), "inner|a\nb\nc\n|");
  EXPECT_EQ(proxied("Forwarded: for=1.2.3.4;HOST=\"A:8080\";proto=http, for=x;host=b\r\n"), "inner||a:8080\nb\n");
  EXPECT_EQ(proxied("Forwarded: for=\"x,host=no;host=no\\\";host=no\"; host=yes\r\n"), "inner||yes\n");
  EXPECT_NE(proxied("X-Forwarded-Host: a, b\r\n"), proxied("X-Forwarded-Host: a\r\nForwarded: host=b\r\n"));
}

TEST(ForwardedList, is_read_only_where_it_cannot_hide_anything) {
  for (const std::string_view good : {"", "for=1.2.3.4", "for=1.2.3.4:80;host=a:8080",
                                      "for=\"[::1]\"; host=\"a\" , for=_x", "host=\"a\\\"b\"", ";;,", "host="}) {
    EXPECT_TRUE(is_forwarded_list(good)) << good;
  }
  for (const std::string_view bad :
       {"for=\"x;host=a", "host=\"a", "for=x\";host=a", "host", "=a", "host =a", "host= a", "for=\"x\"y;host=a",
        "for=\"x\\\";host=a", "for=a\\;host=b", "for=x host=a", "\""}) {
    EXPECT_FALSE(is_forwarded_list(bad)) << bad;
  }
}

TEST_F(AskedHostTest, hosts_that_are_the_same_have_one_name) {
  names_ = HostNames({"api.example API-eu.example.:443 10.0.0.1:8080", "shop.example www.shop.example"});
  EXPECT_EQ(host("Host: API.example:80\r\n"), "api.example||");
  EXPECT_EQ(host("Host: api-eu.example\r\n"), "api.example||");
  EXPECT_EQ(host("Host: 10.0.0.1:8080\r\n"), "api.example||");
  EXPECT_EQ(host("Host: 10.0.0.1\r\n"), "10.0.0.1||");
  EXPECT_EQ(host("Host: www.shop.example\r\n"), "shop.example||");
  EXPECT_EQ(host("Host: other.example\r\n"), "other.example||");
  EXPECT_EQ(host("Host: x\r\nX-Forwarded-Host: www.shop.example\r\n", PeerTrust::trusted_proxy), "x|shop.example\n|");
  names_ = HostNames({"*"});
  EXPECT_EQ(host("Host: a\r\n"), host("Host: b:81\r\n"));
}

TEST_F(AskedHostTest, is_in_every_scope) {
  for (const std::vector<ScopePart>& scope :
       {std::vector{ScopePart::caller}, std::vector{ScopePart::path}, std::vector{ScopePart::method}}) {
    Policy policy;
    policy.scope = scope;
    const auto parts = [&](const std::string& name) {
      const std::string text = "POST / HTTP/1.1\r\nHost: " + name + "\r\n\r\n";
      http::RequestHead head;
      EXPECT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete);
      const ScopeParts made(policy, head);
      return std::vector<std::string>(made.parts().begin(), made.parts().end());
    };
    EXPECT_NE(parts("a.example"), parts("b.example"));
    EXPECT_EQ(parts("a.example"), parts("A.EXAMPLE"));
  }
}

}  // namespace once::gateway
