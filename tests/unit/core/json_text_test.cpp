#include "core/json_text.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace once::core::json_text_test {

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

TEST(JsonText, what_must_be_escaped_is_in_its_shortest_form) {
  EXPECT_EQ(json("a\"\\/\b\f\n\r\t\x01\x1f\x7f"), "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\"");
  EXPECT_EQ(json(std::string_view("\0", 1)), "\"\\u0000\"");
}

TEST(JsonText, utf8_stays_as_it_is) {
  EXPECT_EQ(json("é€😀"), "\"é€😀\"");
}

TEST(JsonText, what_is_not_utf8_is_replaced_byte_by_byte) {
  EXPECT_EQ(json("a\xff\xc3"), "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Utf8, the_edges_of_each_length) {
  EXPECT_EQ(utf8_sequence("\x7f"), 1U);
  EXPECT_EQ(utf8_sequence("\xc2\x80"), 2U);
  EXPECT_EQ(utf8_sequence("\xdf\xbf"), 2U);
  EXPECT_EQ(utf8_sequence("\xe0\xa0\x80"), 3U);
  EXPECT_EQ(utf8_sequence("\xed\x9f\xbf"), 3U);
  EXPECT_EQ(utf8_sequence("\xee\x80\x80"), 3U);
  EXPECT_EQ(utf8_sequence("\xf0\x90\x80\x80"), 4U);
  EXPECT_EQ(utf8_sequence("\xf4\x8f\xbf\xbf"), 4U);
}

TEST(Utf8, overlong_surrogates_too_large_cut_and_stray_bytes_are_not_valid) {
  for (const char* bytes : {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
                            "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe2\x82",
                            "\xf0\x9f\x98", "\xc2\x41", "\xe2\x82\x41", "\xf0\x9f\x98\x41", ""}) {
    EXPECT_EQ(utf8_sequence(bytes), 0U);
  }
}

TEST(Utf8, every_code_point_is_written_as_one_valid_sequence) {
  for (char32_t code_point = 0; code_point <= 0x10ffff; ++code_point) {
    if (code_point >= 0xd800 && code_point < 0xe000) continue;
    std::string text;
    append_utf8(text, code_point);
    ASSERT_EQ(utf8_sequence(text), text.size()) << static_cast<std::uint32_t>(code_point);
  }
}

RC_GTEST_PROP(JsonTextProperty, the_result_is_utf8_without_control_characters, (const std::string& text)) {
  const std::string out = json(text);
  RC_ASSERT(is_utf8(out));
  for (const char c : out) RC_ASSERT(static_cast<unsigned char>(c) >= 0x20);
}

}  // namespace once::core::json_text_test
