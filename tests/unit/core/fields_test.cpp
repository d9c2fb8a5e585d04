#include "core/fields.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace once::core {
namespace fields_test {

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

Pairs pairs(FieldsView fields) {
  Pairs found;
  for (const Field& field : fields) found.emplace_back(field.name, field.value);
  return found;
}

TEST(FieldsTest, are_kept_as_the_lines_of_http_1) {
  Fields fields;
  fields.add("Location", "/payments/1");
  fields.add("Content-Length", 12);
  fields.begin_value("Via").append("1.1 ").append("once");
  fields.end_value();
  EXPECT_EQ(fields.lines(), "Location: /payments/1\r\nContent-Length: 12\r\nVia: 1.1 once\r\n");
  EXPECT_EQ(pairs(fields.view()), (Pairs{{"Location", "/payments/1"}, {"Content-Length", "12"}, {"Via", "1.1 once"}}));
}

TEST(FieldsTest, a_received_field_keeps_its_spelling) {
  const FieldsView received = FieldsView::of_lines("x-a:  b \r\nX-C: d\r\n");
  Fields fields;
  for (const Field& field : received) fields.add(field);
  EXPECT_EQ(fields.lines(), "x-a:  b \r\nX-C: d\r\n");
  EXPECT_EQ(fields.find("X-A"), "b");
  EXPECT_TRUE(fields.has("x-c"));
  EXPECT_FALSE(fields.has("x"));
}

TEST(FieldsTest, the_first_field_of_a_name_is_found) {
  const FieldsView fields = FieldsView::of_lines("A: 1\r\na: 2\r\n");
  EXPECT_EQ(fields.find("a"), "1");
}

TEST(FieldsTest, lines_of_any_bytes_can_be_read) {
  const std::vector<std::pair<std::string_view, Pairs>> rows = {
      {"", {}},
      {"A", {{"A", ""}}},
      {"A:", {{"A", ""}}},
      {":", {{"", ""}}},
      {"A: b", {{"A", "b"}}},
      {"A\r\nB: c:d\r\n", {{"A", ""}, {"B", "c:d"}}},
      {"\r\n\r\n", {{"", ""}, {"", ""}}},
      {"A: b\nC: d\r\n", {{"A", "b\nC: d"}}},
  };
  for (const auto& [lines, expected] : rows) EXPECT_EQ(pairs(FieldsView::of_lines(lines)), expected) << lines;
}

TEST(FieldsTest, tokens_and_values) {
  for (const std::string_view token : {"a", "X-Request-Id", "!#$%&'*+-.^_`|~0"}) EXPECT_TRUE(is_token(token)) << token;
  for (const std::string_view other : {"", "a b", "a:", "a\r", "\x7f", "\x80", "a(b)"})
    EXPECT_FALSE(is_token(other)) << other;
  // At every place of a value that is longer than the eight bytes which are looked at together.
  for (int byte = 0; byte < 256; ++byte) {
    const bool good = byte == '\t' || (byte >= 0x20 && byte != 0x7f);
    for (std::size_t at = 0; at < 20; ++at) {
      std::string text(20, 'a');
      text[at] = static_cast<char>(byte);
      EXPECT_EQ(is_field_value(text), good) << byte << " at " << at;
      text[at == 0 ? 1 : at - 1] = '\t';  // beside a byte that needs a closer look
      EXPECT_EQ(is_field_value(text), good) << byte << " at " << at;
    }
  }
}

TEST(FieldsDeathTest, a_value_of_two_lines_is_not_added) {
  Fields fields;
  EXPECT_DEATH(fields.add("A", "b\r\nC: d"), "is_field_value");
  EXPECT_DEATH(FieldName::of_token("A B"), "is_token");
}

}  // namespace fields_test
}  // namespace once::core
