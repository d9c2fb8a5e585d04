// Which route a request takes.
#include "gateway/identity/routes.hpp"

#include <gtest/gtest.h>

#include "core/headers.hpp"

namespace once::gateway {
namespace routes_test {

struct Fit {
  std::string_view pattern;
  std::string_view path;
  bool matches;
};

TEST(PathPatternTest, patterns_and_paths) {
  for (const auto& [pattern, path, matches] : std::vector<Fit>{
           {"/", "/", true},
           {"/", "/a", false},
           {"/", "", false},
           {"/", "*", false},
           {"/a", "/a", true},
           {"/a", "/a/", true},
           {"/a/", "/a/", true},
           {"/a/", "/a", true},
           {"/a/", "/a/b", false},
           {"/a/", "/", false},
           {"/a", "/ab", false},
           {"/a", "/A", false},
           {"/a/b", "/a/b", true},
           {"/a/b", "/a", false},
           {"/a/b", "/a/b/c", false},
           {"/a/b", "/a//b", false},
           {"/*", "/a", true},
           {"/*", "/a/", true},
           {"/*/", "/a", true},
           {"/*", "/", false},
           {"/*", "/a/b", false},
           {"/a/*/c", "/a/b/c", true},
           {"/a/*/c", "/a//c", false},
           {"/a/*/c", "/a/b/d", false},
           {"/a/{id}", "/a/7", true},
           {"/a/{id}", "/a/7/", true},
           {"/a/{id}", "/a/", false},
           {"/a/{id}", "/a/7/8", false},
           {"/a/{id", "/a/7", false},
           {"/a/{id", "/a/{id", true},
           {"/a*", "/ab", false},
           {"/a*", "/a*", true},
           {"/**", "/", true},
           {"/**", "/a", true},
           {"/**", "/a/b/", true},
           {"/**", "*", false},
           {"/**", "", false},
           {"/a/**", "/a", true},
           {"/a/**", "/a/", true},
           {"/a/**", "/a/b/c", true},
           {"/a/**", "/ab", false},
           {"/a/**", "/b/a", false},
           {"/a/*/**", "/a/b", true},
           {"/a/*/**", "/a/b/c/d", true},
           {"/a/*/**", "/a", false},
           {"/a/*/**", "/a/", false},
           // Patterns are normalised like paths, and paths by whoever asks.
           {"/a/%62", "/a/b", true},
           {"/a/b%2fc", "/a/b%2Fc", true},
           {"/a/b", "/a/%62", false},
           {"/a/b", "/x/../a/b", false},
           {"/a b", "/a b", true},
       }) {
    EXPECT_EQ(PathPattern(pattern).matches(path), matches) << pattern << " and " << path;
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
  struct Case {
    const char* pattern;
    const char* host;
    bool matches;
  };
  for (const auto& [pattern, host, matches] : std::initializer_list<Case>{
           {"[::1]", "[0:0:0:0:0:0:0:1]", true},
           {"[0:0::1]", "[::1]:8080", true},
           {"[::1]", "[::2]", false},
           {"api.example.com", "api.example.com", true},
           {"api.example.com", "API.Example.COM", true},
           {"api.example.com", "api.example.com.", true},
           {"api.example.com", "api.example.com:8443", true},
           {"API.example.com", "api.example.com", true},
           {"api.example.com", "eu.api.example.com", false},
           {"api.example.com", "api.example.com.evil", false},
           {"api.example.com", "", false},
           {"*.example.com", "api.example.com", true},
           {"*.example.com", "a.b.example.com:1", true},
           {"*.example.com", "example.com", false},
           {"*.example.com", ".example.com", false},
           {"*.example.com", "notexample.com", false},
           {"[::1]", "[::1]:8080", true},
           {"[::1]", "[::2]", false},
       }) {
    std::string scratch;
    EXPECT_EQ(HostPattern(pattern).matches(HostPattern::name_in(host, scratch)), matches) << pattern << " and " << host;
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

}  // namespace routes_test
}  // namespace once::gateway
