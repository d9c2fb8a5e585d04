// Paths as routes see them.
#include "core/path.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace once::core::path_test {

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

TEST(PathTest, dots_before_parameters_are_refused) {
  for (const std::string_view path : {"/..;/manager", "/a/..;x=1/b", "/a/.;/b", "/a/%2e%2E;/b", "/a/..%3b/b", "/a/..;",
                                      "/a/x%2F..;%2Fb", "/a/x%2F.;"}) {
    std::string scratch;
    const auto found = normalise_path(path, scratch);
    ASSERT_FALSE(found.has_value()) << path;
    EXPECT_EQ(found.error(), PathError::ambiguous) << path;
  }
  for (const std::string_view path : {"/a;x=1/b", "/a;..", "/...;/b", "/..a;/b"}) {
    std::string scratch;
    EXPECT_EQ(normalise_path(path, scratch).value_or("refused"), path);
  }
}

TEST(PathTest, other_readings) {
  struct Reread {
    std::string_view normal;
    Reading reading;
    std::string_view read;
  };
  for (const auto& [normal, reading, read] : std::vector<Reread>{
           {"/v1%2Fcharges", {.encoded_slashes = true}, "/v1/charges"},
           {"/v1%2F%2Fcharges", {.encoded_slashes = true}, "/v1/charges"},
           {"/v1\\charges", {.backslashes = true}, "/v1/charges"},
           {"/v1/a\\..\\charges", {.backslashes = true}, "/v1/charges"},
           {"/v1;a=b/charges;c", {.parameters = true}, "/v1/charges"},
           {"/v1;a%2Fcharges", {.parameters = true}, "/v1"},
           {"/v1;a%2Fcharges", {.parameters = true, .encoded_slash_ends_parameters = true}, "/v1%2Fcharges"},
           {"/v1;a%2Fcharges",
            {.encoded_slashes = true, .parameters = true, .encoded_slash_ends_parameters = true},
            "/v1/charges"},
           {"/v1;a\\charges", {.backslashes = true, .parameters = true}, "/v1"},
           {"/v1;a\\charges", {.parameters = true, .backslash_ends_parameters = true}, "/v1\\charges"},
           {"/v1;a\\charges",
            {.backslashes = true, .parameters = true, .backslash_ends_parameters = true},
            "/v1/charges"},
           {"/v1%2Fcharges", {.backslashes = true, .parameters = true}, ""},
           {"/v1/charges", {.encoded_slashes = true, .backslashes = true, .parameters = true}, ""},
           {"/%252F", {.encoded_slashes = true}, ""},
       }) {
    const auto found = reread(normal, reading);
    EXPECT_EQ(found.has_value(), !read.empty()) << normal;
    if (found) EXPECT_EQ(found->value_or("refused"), read) << normal;
  }
  EXPECT_EQ(reread("/a\\..\\..\\b", {.backslashes = true})->error(), PathError::escapes_root);
}

TEST(PathTest, a_path_with_nothing_to_do_is_not_copied) {
  const std::string path = "/v1/payments/p.1";
  std::string scratch;
  EXPECT_EQ(normalise_path(path, scratch)->data(), path.data());
  EXPECT_EQ(scratch, "");
}

TEST(PathTest, refused) {
  using enum PathError;
  struct Refused {
    PathError error;
    std::vector<std::string_view> paths;
  };
  const std::vector<Refused> all = {
      {escapes_root, {"/..", "/../v1", "/v1/../../v2", "/%2e%2e/v1", "/v1/./../.."}},
      {control_character, {"/v1/%00", "/v1/%0a", "/v1/%1F/x", "/v1/%7f"}},
      // One reader merges slashes first, another does not.
      {ambiguous, {"/v1//../payments", "/v1//x/../../payments", "/v1//./../payments", "//.."}},
      // One reader takes the dropped segment for two, or for none.
      {ambiguous, {"/v1/a\\b/../..", "/v1/a%5Cb/../..", "/v1/a%2Fb/../..", "/v1/a%2fb/../../..", "/v1/;/..//payments"}},
      {ambiguous, {"/v1/a;b/../payments"}},
      // One reader decodes slashes, another does not.
      {ambiguous, {"/v1/x/..%2Fpayments", "/v1/x%2f..%2fpayments", "/v1/x%2F%2e%2e", "/v1/.%2Fpayments"}},
  };
  for (const auto& [error, paths] : all) {
    for (const std::string_view path : paths) {
      std::string scratch;
      const auto found = normalise_path(path, scratch);
      ASSERT_FALSE(found.has_value()) << path << " became " << *found;
      EXPECT_EQ(found.error(), error) << path;
      EXPECT_NE(describe(error), "");
    }
  }
}

TEST(PathTest, segments_of_patterns) {
  EXPECT_EQ(normalise_segment("payments"), "payments");
  EXPECT_EQ(normalise_segment("%70ay%2fments%25"), "pay%2Fments%25");
}

}  // namespace once::core::path_test
