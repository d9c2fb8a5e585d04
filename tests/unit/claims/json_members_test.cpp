#include "claims/json_members.hpp"

#include <gtest/gtest.h>

namespace once::claims::json_members_test {

TEST(JsonMembers, values_are_the_bytes_that_were_sent) {
  const auto members = json_members(" {\"a\" : 1.50 ,\"\\u0062\":{\"x\": [1, 2]},\"c\":\"\\ud800\"}\n");
  ASSERT_TRUE(members.has_value());
  ASSERT_EQ(members->size(), 3U);
  EXPECT_EQ((*members)[0].name, "a");
  EXPECT_EQ((*members)[0].value, "1.50");
  EXPECT_EQ((*members)[1].name, "b");
  EXPECT_EQ((*members)[1].value, "{\"x\": [1, 2]}");
  EXPECT_EQ((*members)[2].value, "\"\\ud800\"");
  EXPECT_TRUE(json_members("{}")->empty());
}

TEST(JsonMembers, what_is_not_one_object_is_refused) {
  for (const char* text : {"", " ", "[]", "1", "{", "{]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{\"a\":1}x",
                           "{\"a\":1}{}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "{\"\\ud800\":1}"}) {
    EXPECT_FALSE(json_members(text).has_value()) << text;
  }
}

TEST(JsonMembers, values_are_checked_to_the_letter) {
  for (const char* good :
       {"0", "-0", "1e5", "1E+5", "-1.25e-3", "true", "false", "null", "\"\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
        "[]", "[ ]", "[1,[2,{}]]", "{\"a\":{\"a\":1}}", "\"\xc3\xa9\"", " 1 "}) {
    EXPECT_TRUE(is_json_value(good)) << good;
  }
  const std::vector<const char*> numbers = {"01", "+1", ".5", "1.", "1e", "1e+", "-", "1 1", "NaN"};
  const std::vector<const char*> words = {
      "", "tru", "True", "nul", "'a'", "[1,]", "[,1]", "[1 2]", "{\"a\":1 \"b\":2}"};
  const std::vector<const char*> strings = {"\"",     "\"\\x\"",  "\"\\u12g4\"",     "\"\\u123\"",
                                            "\"\n\"", "\"\xff\"", "\"\xed\xa0\x80\""};
  for (const auto& kind : {numbers, words, strings}) {
    for (const char* bad : kind) EXPECT_FALSE(is_json_value(bad)) << bad;
  }
}

TEST(JsonMembers, depth_has_a_limit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(is_json_value(nested(max_members_depth)));
  EXPECT_FALSE(is_json_value(nested(max_members_depth + 1)));
  EXPECT_FALSE(is_json_value(std::string(1'000'000, '[')));
}

TEST(JsonMembers, a_text_is_unescaped_and_is_unicode) {
  EXPECT_EQ(json_string("\"a\\u00e9\\n\""), "a\xc3\xa9\n");
  EXPECT_EQ(json_string("\"\\ud83d\\ude00\""), "\xf0\x9f\x98\x80");
  for (const char* bad : {"1", "\"\\ud800\"", "\"a\" ", "\"a", ""}) EXPECT_FALSE(json_string(bad).has_value()) << bad;
}

}  // namespace once::claims::json_members_test
