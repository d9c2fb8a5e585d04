// Which route a request takes.
#include "gateway/identity/routes.hpp"

#include <gtest/gtest.h>

#include "core/headers.hpp"

namespace once::gateway::routes_test {

struct Fits {
  std::string_view pattern;
  std::vector<std::string_view> paths;
  std::vector<std::string_view> others;
};

TEST(PathPatternTest, patterns_and_paths) {
  const std::vector<Fits> all = {
      {"/", {"/"}, {"/a", "", "*"}},
      {"/a", {"/a", "/a/"}, {"/ab", "/A"}},
      {"/a/", {"/a/", "/a"}, {"/a/b", "/"}},
      {"/a/b", {"/a/b"}, {"/a", "/a/b/c", "/a//b"}},
      {"/*", {"/a", "/a/"}, {"/", "/a/b"}},
      {"/*/", {"/a"}, {}},
      {"/a/*/c", {"/a/b/c"}, {"/a//c", "/a/b/d"}},
      {"/a/{id}", {"/a/7", "/a/7/"}, {"/a/", "/a/7/8"}},
      {"/a/{id", {"/a/{id"}, {"/a/7"}},
      {"/a*", {"/a*"}, {"/ab"}},
      {"/**", {"/", "/a", "/a/b/"}, {"*", ""}},
      {"/a/**", {"/a", "/a/", "/a/b/c"}, {"/ab", "/b/a"}},
      {"/a/*/**", {"/a/b", "/a/b/c/d"}, {"/a", "/a/"}},
      // Patterns are normalised like paths, and paths by whoever asks.
      {"/a/%62", {"/a/b"}, {}},
      {"/a/b%2fc", {"/a/b%2Fc"}, {}},
      {"/a/b", {}, {"/a/%62", "/x/../a/b"}},
      {"/a b", {"/a b"}, {}},
  };
  for (const auto& [pattern, paths, others] : all) {
    for (const std::string_view path : paths) EXPECT_TRUE(PathPattern(pattern).matches(path)) << pattern << ' ' << path;
    for (const std::string_view path : others) {
      EXPECT_FALSE(PathPattern(pattern).matches(path)) << pattern << ' ' << path;
    }
  }
}

TEST(PathPatternTest, equal_patterns_are_for_the_same_paths) {
  EXPECT_EQ(PathPattern("/a/{id}"), PathPattern("/%61/*/"));
  EXPECT_NE(PathPattern("/a/*"), PathPattern("/a/**"));
  EXPECT_NE(PathPattern("/a/*"), PathPattern("/a"));
  EXPECT_NE(PathPattern("/"), PathPattern("/*"));
}

TEST(RoutesTest, the_first_route_whose_path_and_method_fit_is_taken) {
  std::vector<Upstream> upstreams(2);
  upstreams[0].name = "one";
  upstreams[1].name = "two";
  std::vector<Route> routes(3);
  routes[0] = {.path = "/pay/**", .methods = methods({Method::post}), .upstream = "two"};
  routes[1] = {.path = "/pay/refunds", .upstream = "one"};
  routes[2] = {.path = "/pay/*", .upstream = "two"};
  for (std::size_t i = 0; i < routes.size(); ++i) routes[i].policy.ttl = std::chrono::hours(i + 1);
  const Routes found(routes, upstreams);
  const auto taken = [&](Method method, std::string_view path) {
    const RoutedPolicy routed = found.find(method, path, "");
    return std::pair(routed.policy == nullptr ? 0 : std::chrono::floor<std::chrono::hours>(routed.policy->ttl).count(),
                     routed.upstream);
  };
  EXPECT_EQ(taken(Method::post, "/pay/refunds"), std::pair(1L, 1UL));
  EXPECT_EQ(taken(Method::get, "/pay/refunds"), std::pair(2L, 0UL));
  EXPECT_EQ(taken(Method::get, "/pay/x"), std::pair(3L, 1UL));
  EXPECT_EQ(taken(Method::get, "/pay"), std::pair(0L, 0UL));
  EXPECT_EQ(taken(Method::post, "/other"), std::pair(0L, 0UL));
  EXPECT_EQ(taken(Method::options, "*"), std::pair(0L, 0UL));
}

TEST(RoutesTest, hosts_are_exact_or_everything_below_a_name) {
  const std::vector<Fits> all = {
      {"[::1]", {"[0:0:0:0:0:0:0:1]", "[::1]:8080"}, {"[::2]"}},
      {"[0:0::1]", {"[::1]:8080"}, {}},
      {"api.example.com",
       {"api.example.com", "API.Example.COM", "api.example.com.", "api.example.com:8443"},
       {"eu.api.example.com", "api.example.com.evil", ""}},
      {"API.example.com", {"api.example.com"}, {}},
      {"*.example.com", {"api.example.com", "a.b.example.com:1"}, {"example.com", ".example.com", "notexample.com"}},
  };
  for (const auto& [pattern, hosts, others] : all) {
    const auto matches = [&](std::string_view host) {
      std::string scratch;
      return HostPattern(pattern).matches(HostPattern::name_in(host, scratch));
    };
    for (const std::string_view host : hosts) EXPECT_TRUE(matches(host)) << pattern << ' ' << host;
    for (const std::string_view host : others) EXPECT_FALSE(matches(host)) << pattern << ' ' << host;
  }
  EXPECT_TRUE(HostPattern("*.a.example").covers(HostPattern("*.b.a.example")));
  EXPECT_TRUE(HostPattern("*.a.example").covers(HostPattern("b.a.example")));
  EXPECT_FALSE(HostPattern("*.a.example").covers(HostPattern("a.example")));
  EXPECT_FALSE(HostPattern("b.a.example").covers(HostPattern("*.a.example")));
}

TEST(RoutesTest, the_first_route_whose_host_fits_too_is_taken) {
  std::vector<Upstream> upstreams(1);
  upstreams[0].name = "one";
  std::vector<Route> routes(3);
  routes[0] = {.path = "/pay/**", .hosts = {"api.example.com", "*.eu.example.com"}, .upstream = "one"};
  routes[1] = {.path = "/pay/x", .upstream = "one"};
  routes[2] = {.path = "/**", .hosts = {"api.example.com"}, .upstream = "one"};
  const Routes found(routes, upstreams);
  EXPECT_EQ(found.find(Method::post, "/pay/x", "api.example.com").index, 0U);
  EXPECT_EQ(found.find(Method::post, "/pay/x", "a.eu.example.com").index, 0U);
  EXPECT_EQ(found.find(Method::post, "/pay/x", "other.example.com").index, 1U);
  EXPECT_EQ(found.find(Method::post, "/pay/x", "").index, 1U);
  EXPECT_EQ(found.find(Method::post, "/y", "api.example.com").index, 2U);
  EXPECT_EQ(found.find(Method::post, "/y", "other.example.com").policy, nullptr);
  EXPECT_EQ(found.find(Method::post, "/y", "api.example.com").route, "api.example.com/**");
  EXPECT_EQ(found.find(Method::post, "/pay/x", "").route, "/pay/x");
}

}  // namespace once::gateway::routes_test
