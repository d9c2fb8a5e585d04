#include "core/key.hpp"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::core::key_test {

constexpr std::size_t limit = 255;

std::string parsed(std::string_view value) {
  const auto key = parse_key(value, limit);
  return key ? std::string(key->view()) : "error: " + std::string(describe(key.error()));
}

KeyError error_of(std::string_view value, std::size_t max_length = limit) {
  const auto key = parse_key(value, max_length);
  EXPECT_FALSE(key.has_value()) << value;
  return key ? KeyError::several : key.error();
}

std::string in_quotes(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

TEST(Key, quoted_and_bare_are_the_same_key) {
  EXPECT_EQ(parsed("8e03978e-40d5-43dd-bc93-6894a57f9324"), "8e03978e-40d5-43dd-bc93-6894a57f9324");
  EXPECT_EQ(parsed("\"8e03978e-40d5-43dd-bc93-6894a57f9324\""), "8e03978e-40d5-43dd-bc93-6894a57f9324");
}

TEST(Key, escapes_are_undone_in_quotes_only) {
  EXPECT_EQ(parsed(R"("a\"b\\c")"), R"(a"b\c)");
  EXPECT_EQ(parsed(R"(a"b\c)"), R"(a"b\c)");
  EXPECT_EQ(parsed(R"(a\"b)"), R"(a\"b)");
}

TEST(Key, an_unescaped_key_lives_on_when_it_is_moved) {
  auto key = parse_key(R"("a\"b")", limit);
  ASSERT_TRUE(key);
  const Key moved = std::move(*key);
  EXPECT_EQ(moved.view(), "a\"b");
}

TEST(Key, without_escapes_the_header_value_itself_is_viewed) {
  const std::string value = "\"a-key-longer-than-a-short-string-could-hold\"";
  const auto key = parse_key(value, limit);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->view().data(), value.data() + 1);
}

TEST(Key, white_space_around_it_is_not_part_of_it) {
  EXPECT_EQ(parsed(" \tabc\t "), "abc");
  EXPECT_EQ(parsed(" \"abc\" "), "abc");
}

TEST(Key, empty) {
  EXPECT_EQ(error_of(""), KeyError::empty);
  EXPECT_EQ(error_of("  "), KeyError::empty);
  EXPECT_EQ(error_of("\"\""), KeyError::empty);
}

TEST(Key, only_visible_ascii) {
  for (const char* value : {"a b", "a\tb", "\"a\tb\"", "a\x7f", "\"\x01\"", "caf\xc3\xa9", "\"caf\xc3\xa9\"", "a, b"}) {
    EXPECT_EQ(error_of(value), KeyError::bad_character) << value;
  }
  EXPECT_EQ(error_of(std::string_view("a\0b", 3)), KeyError::bad_character);
  EXPECT_EQ(parsed("!~a,b;c=1"), "!~a,b;c=1");
}

TEST(Key, spaces_need_quotes) {
  EXPECT_EQ(parsed("\"a b\""), "a b");
  EXPECT_EQ(parsed("\" \""), " ");
  EXPECT_EQ(error_of("a b"), KeyError::bad_character);
}

TEST(Key, parameters_of_a_string_do_not_count) {
  for (const char* value : {"\"k\";a=1", "\"k\";a", "\"k\"; a=?1;*b-.c_d=\"x, \\\"y\"",
                            "\"k\";p=:aGk=:;q=-1.5;r=tok/en ", "\"k\";at=@1659578233"}) {
    EXPECT_EQ(parsed(value), "k") << value;
  }
  EXPECT_EQ(error_of("\"k\";a=1, \"k\""), KeyError::several);
  EXPECT_EQ(error_of("\"k\";a=\"x\",\"j\""), KeyError::several);
  for (const char* value : {"\"k\";", "\"k\";=1", "\"k\";A=1", "\"k\";1=1", "\"k\";a=", "\"k\";a=\"x", "\"k\";a=\"x\\",
                            "\"k\" ;a", "\"k\";a=1 b", "\"k\";a\"b\""}) {
    EXPECT_EQ(error_of(value), KeyError::bad_string) << value;
  }
}

TEST(Key, a_broken_quoted_string_is_no_bare_key) {
  for (const char* value :
       {"\"", "\"abc", "\"abc\\\"", "\"abc\\", "\"a\\b\"", "\"abc\"d", "\"abc\" ;p", "\"abc\"\"d\""}) {
    EXPECT_EQ(error_of(value), KeyError::bad_string) << value;
  }
}

TEST(Key, two_quoted_strings_are_several_keys) {
  EXPECT_EQ(error_of("\"a\", \"b\""), KeyError::several);
  EXPECT_EQ(error_of("\"a\",\"a\""), KeyError::several);
}

TEST(Key, the_limit_counts_the_key_and_not_its_spelling) {
  const std::string longest(256, '"');
  ASSERT_TRUE(parse_key(in_quotes(longest), 256));
  EXPECT_EQ(parse_key(in_quotes(longest), 256)->view(), longest);
  EXPECT_EQ(error_of(in_quotes(longest), 255), KeyError::too_long);
  EXPECT_TRUE(parse_key(std::string(255, 'a'), 255));
  EXPECT_EQ(error_of(std::string(256, 'a'), 255), KeyError::too_long);
  EXPECT_TRUE(parse_key(in_quotes(std::string(255, 'a')), 255));
  EXPECT_EQ(error_of(in_quotes(std::string(256, 'a')), 255), KeyError::too_long);
}

RC_GTEST_PROP(KeyProperty, every_key_has_two_spellings_unless_it_has_spaces, ()) {
  const auto key = *rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::inRange<char>(0x20, 0x7f)));
  RC_PRE(key.size() <= limit);
  RC_ASSERT(parsed(in_quotes(key)) == key);
  if (key.front() != '"' && !key.contains(' ')) RC_ASSERT(parsed(key) == key);
}

RC_GTEST_PROP(KeyProperty, what_is_accepted_is_always_a_valid_key, (const std::string& value)) {
  const auto key = parse_key(value, 8);
  if (!key) return;
  RC_ASSERT(!key->view().empty() && key->view().size() <= 8U);
  for (const char c : key->view()) RC_ASSERT(c >= 0x20 && c < 0x7f);
}

}  // namespace once::core::key_test
