#include "core/etag.hpp"

#include <gtest/gtest.h>

namespace once::core::etag_test {

TEST(Etag, is_strong_quoted_and_the_same_for_the_same) {
  const Representation page{.content_type = "text/plain", .content_encoding = "", .body = "hello"};
  const std::string tag = make_etag(page);
  EXPECT_EQ(tag.size(), 34U);
  EXPECT_TRUE(tag.starts_with('"') && tag.ends_with('"'));
  EXPECT_EQ(make_etag(page), tag);
  // Gateways of different versions stand side by side: what a client was given stays good.
  EXPECT_EQ(tag, "\"5c6fddd7defe47428e9a9eb5c3263e9a\"");
}

TEST(Etag, differs_with_bytes_type_and_encoding_and_with_where_one_ends) {
  const std::string tag = make_etag({.content_type = "a", .content_encoding = "b", .body = "c"});
  EXPECT_NE(tag, make_etag({.content_type = "a", .content_encoding = "b", .body = "d"}));
  EXPECT_NE(tag, make_etag({.content_type = "x", .content_encoding = "b", .body = "c"}));
  EXPECT_NE(tag, make_etag({.content_type = "a", .content_encoding = "x", .body = "c"}));
  EXPECT_NE(tag, make_etag({.content_type = "ab", .content_encoding = "", .body = "c"}));
  EXPECT_NE(tag, make_etag({.content_type = "a", .content_encoding = "", .body = "bc"}));
}

struct ListCase {
  const char* value;
  bool strong;  // has "a", compared strongly
  bool weak;
};

TEST(TagList, is_read_as_the_grammar_has_it) {
  for (const ListCase& test :
       {ListCase{R"("a")", true, true}, ListCase{R"(W/"a")", false, true}, ListCase{R"("b", "a")", true, true},
        ListCase{R"(  "b"	,W/"a" )", false, true}, ListCase{R"(,, "a" ,)", true, true},
        ListCase{R"("a,b")", false, false}, ListCase{R"("")", false, false}, ListCase{"\"\x80\xff!\"", false, false},
        ListCase{"*", true, true}}) {
    TagList list;
    EXPECT_TRUE(list.add(test.value)) << test.value;
    EXPECT_EQ(list.has("\"a\"", TagComparison::strong), test.strong) << test.value;
    EXPECT_EQ(list.has("\"a\"", TagComparison::weak), test.weak) << test.value;
    EXPECT_FALSE(list.empty());
  }
  for (const char* bad : {"", ",", "a", R"("a)", R"(a")", R"("a" "b")", R"("a"b)", R"("a b")", "\"a\x7f\"", R"(w/"a")",
                          R"(W/ "a")", R"(W/)", R"(*, "a")", R"("a", *)", "**"}) {
    EXPECT_FALSE(TagList().add(bad)) << bad;
  }
}

TEST(TagList, in_several_fields_is_one_list_and_a_star_is_alone) {
  TagList list;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.add("\"a\""));
  EXPECT_TRUE(list.add("\"b\", \"c\""));
  EXPECT_TRUE(list.has("\"a\"", TagComparison::strong));
  EXPECT_TRUE(list.has("\"c\"", TagComparison::strong));
  EXPECT_FALSE(list.add("*"));
  TagList any;
  EXPECT_TRUE(any.add("*"));
  EXPECT_TRUE(any.any());
  EXPECT_FALSE(any.add("\"a\""));
}

TEST(TagList, a_weak_tag_is_never_strongly_equal) {
  TagList list;
  ASSERT_TRUE(list.add("W/\"a\", \"b\""));
  EXPECT_FALSE(list.has("W/\"a\"", TagComparison::strong));
  EXPECT_TRUE(list.has("W/\"a\"", TagComparison::weak));
  EXPECT_TRUE(list.has("W/\"b\"", TagComparison::weak));
}

struct StateCase {
  const char* match;
  const char* none_match;
  bool exists;
  const char* tag;
  bool holds;
};

// clang-format off
constexpr StateCase states[] = {
  {"",             "",          true,  "\"a\"", true},
  {"",             "",          false, "",      true},
  {"*",            "",          true,  "\"a\"", true},
  {"*",            "",          true,  "",      true},
  {"*",            "",          false, "",      false},
  {"\"a\"",        "",          true,  "\"a\"", true},
  {"\"b\", \"a\"", "",          true,  "\"a\"", true},
  {"W/\"a\"",      "",          true,  "\"a\"", false},
  {"\"b\"",        "",          true,  "\"a\"", false},
  {"\"a\"",        "",          true,  "",      false},
  {"\"a\"",        "",          false, "",      false},
  {"",             "*",         false, "",      true},
  {"",             "*",         true,  "\"a\"", false},
  {"",             "*",         true,  "",      false},
  {"",             "W/\"a\"",   true,  "\"a\"", false},
  {"",             "\"b\"",     true,  "\"a\"", true},
  {"",             "\"b\"",     true,  "",      true},
  {"\"a\"",        "\"b\"",     true,  "\"a\"", true},
  {"\"a\"",        "*",         true,  "\"a\"", false},
};
// clang-format on

TEST(Precondition, holds_for_the_states_it_names) {
  for (const StateCase& test : states) {
    Precondition precondition;
    if (*test.match != '\0') ASSERT_TRUE(precondition.match.add(test.match));
    if (*test.none_match != '\0') ASSERT_TRUE(precondition.none_match.add(test.none_match));
    CurrentState current{.exists = test.exists, .tag = std::nullopt};
    if (*test.tag != '\0') current.tag = test.tag;
    EXPECT_EQ(holds(precondition, current), test.holds)
        << "If-Match: " << test.match << " If-None-Match: " << test.none_match << " on " << test.tag;
  }
}

}  // namespace once::core::etag_test
