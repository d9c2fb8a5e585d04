// Paths as routes see them.
#include "core/path.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace once {
namespace path_test {

struct Case {
  std::string_view path;
  std::string_view normal;
};

TEST(PathTest, normal_forms) {
  for (const auto& [path, normal] : std::vector<Case>{
           // Nothing to do.
           {"/", "/"},
           {"/v1/payments", "/v1/payments"},
           {"/v1/payments/", "/v1/payments/"},
           {"/v1/pay.ments", "/v1/pay.ments"},
           {"/a b", "/a b"},
           {"", ""},
           {"*", "*"},
           // Slashes.
           {"//", "/"},
           {"//v1///payments//", "/v1/payments/"},
           // Escapes: decoded once, and not those of a slash or of the mark itself.
           {"/v1/%70ayments", "/v1/payments"},
           {"/v1/%50ayments", "/v1/Payments"},
           {"/v1/pay%2Dments%7E", "/v1/pay-ments~"},
           {"/v1/payments%3Abatch", "/v1/payments:batch"},
           {"/v1/%c3%bc%20", "/v1/\xc3\xbc "},
           {"/v1%2fpayments", "/v1%2Fpayments"},
           {"/v1%2Fpayments", "/v1%2Fpayments"},
           {"/v1/%2570ayments", "/v1/%2570ayments"},
           // What is no escape stays.
           {"/%", "/%"},
           {"/%7", "/%7"},
           {"/%zz/%7g", "/%zz/%7g"},
           // Dots.
           {"/.", "/"},
           {"/./", "/"},
           {"/v1/./payments", "/v1/payments"},
           {"/v1/x/../payments", "/v1/payments"},
           {"/v1/x/%2E%2e/payments", "/v1/payments"},
           {"/v1/x/.%2e/payments", "/v1/payments"},
           {"/v1/payments/..", "/v1/"},
           {"/v1/payments/.", "/v1/payments/"},
           {"/v1/..", "/"},
           {"/v1/../", "/"},
           {"/a/b/../../c", "/c"},
           {"/a//b/../c", "/a/c"},
           {"/.well-known/x", "/.well-known/x"},
           {"/...", "/..."},
           {"/..a/.b", "/..a/.b"},
       }) {
    std::string scratch = "left over";
    const auto found = normalise_path(path, scratch);
    ASSERT_TRUE(found.has_value()) << path;
    EXPECT_EQ(*found, normal) << path;
  }
}

TEST(PathTest, a_path_with_nothing_to_do_is_not_copied) {
  const std::string path = "/v1/payments/p.1";
  std::string scratch;
  EXPECT_EQ(normalise_path(path, scratch)->data(), path.data());
  EXPECT_EQ(scratch, "");
}

TEST(PathTest, refused) {
  using enum PathError;
  for (const auto& [path, error] : std::vector<std::pair<std::string_view, PathError>>{
           {"/..", escapes_root},
           {"/../v1", escapes_root},
           {"/v1/../../v2", escapes_root},
           {"/%2e%2e/v1", escapes_root},
           {"/v1/./../..", escapes_root},
           {"/v1/%00", control_character},
           {"/v1/%0a", control_character},
           {"/v1/%1F/x", control_character},
           {"/v1/%7f", control_character},
           // One reader merges slashes first, another does not.
           {"/v1//../payments", ambiguous},
           {"/v1//x/../../payments", ambiguous},
           {"/v1//./../payments", ambiguous},
           {"//..", ambiguous},
           // One reader decodes slashes, another does not.
           {"/v1/x/..%2Fpayments", ambiguous},
           {"/v1/x%2f..%2fpayments", ambiguous},
           {"/v1/x%2F%2e%2e", ambiguous},
           {"/v1/.%2Fpayments", ambiguous},
       }) {
    std::string scratch;
    const auto found = normalise_path(path, scratch);
    ASSERT_FALSE(found.has_value()) << path << " became " << *found;
    EXPECT_EQ(found.error(), error) << path;
    EXPECT_NE(describe(error), "");
  }
}

TEST(PathTest, segments_of_patterns) {
  EXPECT_EQ(normalise_segment("payments"), "payments");
  EXPECT_EQ(normalise_segment("%70ay%2fments%25"), "pay%2Fments%25");
}

}  // namespace path_test
}  // namespace once
