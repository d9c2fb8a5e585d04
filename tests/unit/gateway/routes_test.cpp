// Which route a request takes.
#include "gateway/routes.hpp"

#include <gtest/gtest.h>

#include "core/headers.hpp"

namespace once {
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
           {"/a", "/a/", false},
           {"/a/", "/a/", true},
           {"/a/", "/a", false},
           {"/a", "/ab", false},
           {"/a", "/A", false},
           {"/a/b", "/a/b", true},
           {"/a/b", "/a", false},
           {"/a/b", "/a/b/c", false},
           {"/a/b", "/a//b", false},
           {"/*", "/a", true},
           {"/*", "/", false},
           {"/*", "/a/b", false},
           {"/a/*/c", "/a/b/c", true},
           {"/a/*/c", "/a//c", false},
           {"/a/*/c", "/a/b/d", false},
           {"/a/{id}", "/a/7", true},
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
    const RoutedPolicy routed = found.find(method, path);
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

}  // namespace routes_test
}  // namespace once
