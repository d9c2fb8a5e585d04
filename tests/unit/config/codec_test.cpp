#include "config/codec.hpp"

#include <gtest/gtest.h>

#include "config/setting.hpp"
#include "config/yaml.hpp"
#include "core/outcome.hpp"

namespace once::config::codec_test {

TEST(ConfigCodec, addresses) {
  const auto ipv6 = parse_address("[::1]:8080");
  ASSERT_TRUE(ipv6.has_value());
  EXPECT_EQ(ipv6->host, "::1");
  EXPECT_EQ(ipv6->port, 8080);
  EXPECT_TRUE(parse_address("localhost:0").has_value());
  EXPECT_TRUE(parse_address("0.0.0.0:65535").has_value());
  for (const std::string_view bad :
       {"", ":8080", "localhost", "localhost:", "127.0.0.1:65536", "127.0.0.1:+80", "::1:8080", "[::1]", "[::1",
        "[]:80", "[abc]:80", "a b:80", "a:80:90", "unix:/tmp/x", "a:000080"}) {
    EXPECT_FALSE(parse_address(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, origins_are_as_browsers_send_them) {
  const auto codec = origin_codec();
  for (const std::string good :
       {"*", "https://app.example", "http://localhost:3000", "https://app.example:444", "http://a:443"}) {
    EXPECT_TRUE(codec.parse(good).has_value()) << good;
  }
  for (const std::string bad : {"", "app.example", "https://app.example:443", "http://app.example:80",
                                "https://App.example", "https://app.example/", "https://*.example", "://a"}) {
    EXPECT_FALSE(codec.parse(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, sources_of_secrets) {
  const auto codec = secret_source_codec();
  for (const std::string good : {"", "file:/etc/once/token", "env:ONCE_ADMIN_TOKEN", "sixteen-bytes-at-least"}) {
    EXPECT_TRUE(codec.parse(good).has_value()) << good;
  }
  for (const std::string bad : {"file:", "env:", "too-short", "with a blank and so on", "sixteen-bytes-or-more\n"}) {
    const auto parsed = codec.parse(bad);
    ASSERT_FALSE(parsed.has_value()) << bad;
    if (!bad.contains(':')) EXPECT_FALSE(parsed.error().contains(bad)) << "a secret is not repeated";
  }
  EXPECT_EQ(codec.format("file:/etc/once/token"), "file:/etc/once/token");
  EXPECT_EQ(codec.format("sixteen-bytes-at-least"), "(not shown)");
}

TEST(ConfigCodec, upstream_urls) {
  const auto plain = parse_upstream("http://payments");
  ASSERT_TRUE(plain.has_value());
  ASSERT_EQ(plain->servers.size(), 1U);
  EXPECT_EQ(plain->servers[0].host, "payments");
  EXPECT_EQ(plain->servers[0].port, 80);
  EXPECT_EQ(plain->base_path, "");
  const auto full = parse_upstream("http://[::1]:9000/base/v1/");
  ASSERT_TRUE(full.has_value());
  EXPECT_EQ(full->servers.at(0).host, "::1");
  EXPECT_EQ(full->servers.at(0).port, 9000);
  EXPECT_EQ(full->base_path, "/base/v1");
  EXPECT_EQ(format_upstream(*full), "http://[::1]:9000/base/v1");
  const auto secure = parse_upstream("https://api.internal/base");
  ASSERT_TRUE(secure.has_value());
  EXPECT_EQ(secure->servers.at(0).scheme, UpstreamServer::Scheme::https);
  EXPECT_EQ(secure->servers.at(0).port, 443);
  EXPECT_EQ(format_upstream(*secure), "https://api.internal:443/base");
  const auto socket = parse_upstream("unix:/run/app.sock");
  ASSERT_TRUE(socket.has_value());
  EXPECT_EQ(socket->servers.at(0).socket, "/run/app.sock");
  EXPECT_EQ(format_upstream(*socket), "unix:/run/app.sock");
  for (const std::string_view bad : {"", "payments", "127.0.0.1:9000", "unix:", "unix:relative", "unix:/\n", "http://",
                                     "https://", "https:///x", "https://a:0", "http:///x", "http://a:0", "http://a:b",
                                     "http://user:pw@a", "http://a/?q", "http://a/#f", "http://a/b c", "ftp://a"}) {
    EXPECT_FALSE(parse_upstream(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, route_patterns) {
  const Codec<std::string> codec = pattern_codec();
  for (const char* good :
       {"/", "/**", "/v1/charges", "/v1/charges/", "/v1/*/refunds/**", "/v1/{id}", "/v1/{id}/x", "/~a/%20"}) {
    EXPECT_TRUE(codec.parse(good).has_value()) << good;
  }
  for (const char* bad :
       {"", "v1", "**", "/**/x", "/a*", "/a**", "/{", "/{}", "/{a", "/a}", "/{*}", "/a?b", "/a#b", "/a b", "/\n"}) {
    EXPECT_FALSE(codec.parse(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, header_names_are_tokens) {
  const Codec<std::string> codec = header_name_codec();
  EXPECT_TRUE(codec.parse("X-Idempotency-Key").has_value());
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a:"), std::string("a\r\nb"),
                                 std::string("é"), std::string(101, 'a')}) {
    EXPECT_FALSE(codec.parse(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, json_pointers) {
  const Codec<std::string> codec = json_pointer_codec();
  for (const char* good : {"/timestamp", "/a/0/b", "/a~1b", "/a~0b", "/"})
    EXPECT_TRUE(codec.parse(good).has_value()) << good;
  for (const char* bad : {"", "timestamp", "/a~", "/a~2"}) EXPECT_FALSE(codec.parse(bad).has_value()) << bad;
}

TEST(ConfigCodec, callers) {
  const Codec<CallerSource> codec = caller_codec();
  EXPECT_EQ(codec.format(codec.parse("header:Authorization").value()), "header:Authorization");
  EXPECT_EQ(codec.parse("cookie:sid").value().kind, CallerSource::Kind::cookie);
  for (const char* good : {"cookie:sid", "proxy-header:X-Org-Id", "jwt:sub", "jwt:/org/id",
                           "jwt:https://example.com/org", "mtls:subject", "client-ip"}) {
    const auto source = codec.parse(good);
    ASSERT_TRUE(source.has_value()) << good;
    EXPECT_EQ(codec.format(*source), good);
  }
  for (const char* bad :
       {"", "header", "header:", "Authorization", "header:a b", "proxy-header:", "proxy-header:a b", "jwt",
        "jwt:", "jwt:/a~", "jwt:a b", "mtls", "mtls:issuer", "client-ip:", "client_ip", "subject"}) {
    EXPECT_FALSE(codec.parse(bad).has_value()) << bad;
  }
}

TEST(ConfigCodec, statuses_by_code_and_class) {
  const auto set = parse_statuses({"2xx", "404"});
  ASSERT_TRUE(set.has_value());
  EXPECT_TRUE(contains(*set, 200));
  EXPECT_TRUE(contains(*set, 299));
  EXPECT_TRUE(contains(*set, 404));
  EXPECT_FALSE(contains(*set, 300));
  EXPECT_EQ(format_statuses(*set), (std::vector<std::string>{"2xx", "404"}));
  for (const char* bad : {"1xx", "6xx", "xx", "99", "600", "2XX", "-200", "200 "}) {
    EXPECT_FALSE(parse_statuses({bad}).has_value()) << bad;
  }
}

TEST(ConfigCodec, what_is_shown_can_be_read) {
  for (const Values& values : {Values{}, Values{"a"}, Values{"a", "b c"}}) {
    EXPECT_EQ(read_values(Shape::list, show_values(Shape::list, values)), values);
  }
  EXPECT_EQ(read_values(Shape::list, "POST,PATCH"), (Values{"POST", "PATCH"}));
  EXPECT_EQ(read_values(Shape::one, "[::1]:80"), (Values{"[::1]:80"}));
}

TEST(ConfigYaml, scalars_are_quoted_when_they_must_be) {
  for (const std::string_view text :
       {"memory:", "",    "a b", "null",     "[::1]:80", "- x", "a: b", "\"q\" \\", "*",  "&a",   "#c",  "@x",
        "plain",   "24h", "/x",  "header:A", "yes",      "~",   "%",    "'",        "{}", "Null", "NULL"}) {
    const auto node = parse_yaml("k: " + yaml_scalar(text));
    ASSERT_TRUE(node.has_value()) << text;
    EXPECT_EQ(node->children.at(1).kind, YamlNode::Kind::scalar) << text;
    EXPECT_EQ(node->children.at(1).text, text);
  }
}

TEST(ConfigYaml, aliases_cannot_explode) {
  EXPECT_FALSE(parse_yaml("a: &a [*a]").has_value());
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    text += fmt::format("a{0}: &a{0} [*a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  const auto node = parse_yaml(text);
  ASSERT_FALSE(node.has_value());
  EXPECT_EQ(node.error().text, "too large");
}

}  // namespace once::config::codec_test
