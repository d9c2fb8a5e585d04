#include "core/json_canonical.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace once::core::json_canonical_test {

using Pointers = std::vector<std::string>;

std::string canonical(std::string_view json, const Pointers& include = {}, const Pointers& exclude = {}) {
  return canonical_json(json, include, exclude).value_or("none");
}

std::string nested(std::size_t depth, char open, char close) {
  return std::string(depth, open) + std::string(depth, close);
}

TEST(CanonicalJson, order_of_members_and_white_space_do_not_show) {
  EXPECT_EQ(canonical(" {\"b\" :\t[1 ,2],\r\n\"a\":{\"d\":true,\"c\":null}} "),
            R"({"a":{"c":null,"d":true},"b":[1,2]})");
}

TEST(CanonicalJson, scalars_and_empty_containers) {
  for (const char* json : {"true", "false", "null", "\"\"", "0", "{}", "[]", "[[],{}]", "[null,false]"}) {
    EXPECT_EQ(canonical(json), json);
  }
}

TEST(CanonicalJson, members_are_in_the_order_of_rfc_8785) {
  // The example of RFC 8785, section 3.2.3: by UTF-16 code units, so that U+1F600 comes before U+FB33.
  EXPECT_EQ(canonical(R"({"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7})"),
            "{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,\"\xf0\x9f\x98\x80\":5,"
            "\"\xef\xac\xb3\":3}");
  EXPECT_EQ(canonical(R"({"ab":1,"a":2,"":3})"), R"({"":3,"a":2,"ab":1})");
  EXPECT_EQ(canonical(R"({"ab":1,"a":{"z":2}})"), R"({"a":{"z":2},"ab":1})");
}

TEST(CanonicalJson, strings_are_compared_by_value) {
  EXPECT_EQ(canonical(R"("\u0041\/\"\\\b\f\n\r\t\u001F\u20AC\uD83D\ude00")"),
            "\"A/\\\"\\\\\\b\\f\\n\\r\\t\\u001f\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(canonical(R"({"\u0061":1})"), canonical(R"({"a":1})"));
  EXPECT_EQ(canonical("\"\\u0000\""), "\"\\u0000\"");
  EXPECT_NE(canonical("\"1\""), canonical("1"));
}

TEST(CanonicalJson, numbers_are_compared_as_decimals) {
  for (const char* json : {"1", "1.0", "10e-1", "1.000e0", "0.1e1", "0.0001e4", "1E+00", "100e-02"}) {
    EXPECT_EQ(canonical(json), "1") << json;
  }
  for (const char* json : {"0", "-0", "0.000", "-0.0e5", "0e999999999999999999999", "0E-99999999999999999999"}) {
    EXPECT_EQ(canonical(json), "0") << json;
  }
  EXPECT_EQ(canonical("-12.50"), "-125e-1");
  EXPECT_EQ(canonical("-100"), "-1e2");
  EXPECT_EQ(canonical("101"), "101");
  EXPECT_EQ(canonical("-0.007"), "-7e-3");
}

TEST(CanonicalJson, numbers_that_share_a_double_are_two_numbers) {
  EXPECT_NE(canonical("9007199254740993"), canonical("9007199254740992"));
  EXPECT_NE(canonical("0.1"), canonical("0.1000000000000000055511151231257827"));
  EXPECT_NE(canonical("1e400"), canonical("1e401"));
  EXPECT_NE(canonical("1e-400"), canonical("0"));
}

TEST(CanonicalJson, the_limit_on_exponents_counts_the_value_and_not_its_spelling) {
  EXPECT_EQ(canonical("1e1000000000"), "1e1000000000");
  EXPECT_EQ(canonical("0.1e1000000001"), "1e1000000000");
  EXPECT_EQ(canonical("1e-1000000000"), "1e-1000000000");
  for (const char* json : {"1e1000000001", "10e1000000000", "1e-1000000001", "0.1e-1000000000",
                           "1e99999999999999999999999999", "1e-99999999999999999999999999"}) {
    EXPECT_EQ(canonical(json), "none") << json;
  }
}

TEST(CanonicalJson, duplicate_names_have_no_one_meaning) {
  EXPECT_EQ(canonical(R"({"a":1,"a":1})"), "none");
  EXPECT_EQ(canonical(R"({"b":0,"a":1,"c":0,"\u0061":2})"), "none");
  EXPECT_EQ(canonical(R"([{"x":{"a":1,"a":2}}])"), "none");
  EXPECT_EQ(canonical(R"({"a":{"x":1},"a":{"y":1}})"), "none");
  EXPECT_EQ(canonical(R"({"a":{"a":1},"b":{"a":1}})"), R"({"a":{"a":1},"b":{"a":1}})");
}

TEST(CanonicalJson, what_is_not_json_is_refused) {
  const std::vector<std::vector<std::string_view>> kinds = {
      {"", " ", "{", "}", "[", "]", "[1,]", "[,1]", "[1 2]", "[1", "1 1", "{}{}", "[1]//", "/**/1", "1\f"},
      {"{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{,}", "{a:1}", "{1:1}", "{\"a\" 1}", "{\"a\":1", "\xef\xbb\xbf{}"},
      {"01", "-01", "-", "+1", ".5", "1.", "1.e1", "1e", "1e+", "1e-", "0x10", "1_0", "NaN", "Infinity"},
      {"tru", "trues", "nul", "True", "'a'"},
      {"\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u-123\"", "\"\\u+123\"", "\"\\u 123\""},
      {"\"\n\"", "\"\t\"", std::string_view("1\0", 2), std::string_view("\0", 1), std::string_view("\"\0\"", 3)},
  };
  for (const auto& kind : kinds) {
    for (const std::string_view json : kind) EXPECT_EQ(canonical(json), "none") << json;
  }
}

TEST(CanonicalJson, what_is_not_unicode_is_refused) {
  for (const char* json : {"\"\\ud800\"", "\"\\udc00\"", "\"\\udc00\\udc00\"", "\"\\ud800x\"", "\"\\ud800\\n\"",
                           "\"\\ud800\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\\ud800\"", "\"\\ud800\\u\"",
                           "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "{\"\xff\":1}", "\xff"}) {
    EXPECT_EQ(canonical(json), "none") << json;
  }
}

TEST(CanonicalJson, depth_has_a_limit) {
  EXPECT_EQ(canonical(nested(max_json_depth, '[', ']')), nested(max_json_depth, '[', ']'));
  EXPECT_EQ(canonical(nested(max_json_depth + 1, '[', ']')), "none");
  EXPECT_EQ(canonical(std::string(1'000'000, '[')), "none");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(canonical(objects), "none");
  EXPECT_NE(canonical("[" + nested(max_json_depth - 1, '[', ']') + "," + nested(max_json_depth - 1, '[', ']') + "]"),
            "none");
}

TEST(CanonicalJson, what_stands_side_by_side_is_not_deep) {
  for (const std::string item : {"{}", "[]", "{\"a\":1}"}) {
    std::string items = item;
    for (std::size_t i = 0; i < 2 * max_json_depth; ++i) items += "," + item;
    EXPECT_EQ(canonical("[" + items + "]"), "[" + items + "]");
  }
}

TEST(CanonicalJson, excluded_values_do_not_show) {
  const Pointers exclude = {"/sent_at", "/meta/trace", "/items/1/note"};
  const std::string without = canonical(R"({"amount":1,"items":[{"note":1},{}],"meta":{}})", {}, exclude);
  EXPECT_EQ(without, R"({"amount":1,"items":[{"note":1},{}],"meta":{}})");
  EXPECT_EQ(
      canonical(R"({"sent_at":[9,{}],"amount":1,"items":[{"note":1},{"note":2}],"meta":{"trace":"x"}})", {}, exclude),
      without);
  EXPECT_NE(canonical(R"({"amount":2,"items":[{"note":1},{}],"meta":{}})", {}, exclude), without);
  EXPECT_NE(canonical(R"({"amount":1,"items":[{"note":2},{}],"meta":{}})", {}, exclude), without);
}

TEST(CanonicalJson, an_excluded_element_leaves_no_hole) {
  EXPECT_EQ(canonical("[1,2,3]", {}, {"/1"}), "[1,3]");
  EXPECT_EQ(canonical("[1]", {}, {"/0"}), "[]");
  EXPECT_EQ(canonical("[1,2]", {}, {"/0", "/1", "/2"}), "[]");
}

TEST(CanonicalJson, an_excluded_value_must_still_be_valid) {
  EXPECT_EQ(canonical(R"({"a":{"x":1,"x":2},"b":1})", {}, {"/a"}), "none");
  EXPECT_EQ(canonical(R"({"a":1,"a":2})", {}, {"/a"}), "none");
  EXPECT_EQ(canonical(R"({"a":tru})", {}, {"/a"}), "none");
}

TEST(CanonicalJson, with_include_only_those_count_each_under_its_pointer) {
  const Pointers include = {"/currency", "/amount"};
  EXPECT_EQ(canonical(R"({"amount":10,"at":"now","currency":"eur"})", include), R"({"/amount":1e1,"/currency":"eur"})");
  EXPECT_EQ(canonical(R"({"currency":"eur","at":"later","amount":1e1})", include),
            canonical(R"({"amount":10,"at":"now","currency":"eur"})", include));
  EXPECT_NE(canonical(R"({"amount":1})", include), canonical(R"({"currency":1})", include));
}

TEST(CanonicalJson, absent_and_null_are_two_things_to_include) {
  EXPECT_EQ(canonical("{}", {"/a"}), "{}");
  EXPECT_EQ(canonical(R"({"a":null})", {"/a"}), R"({"/a":null})");
}

TEST(CanonicalJson, order_and_repetition_of_include_pointers_do_not_show) {
  const char* json = R"({"a":1,"b":2})";
  EXPECT_EQ(canonical(json, {"/a", "/b"}), canonical(json, {"/b", "/a", "/b"}));
}

TEST(CanonicalJson, pointers_reach_into_arrays_and_escaped_names) {
  EXPECT_EQ(canonical(R"({"a/b":{"m~n":[0,{"":7}]}})", {"/a~1b/m~0n/1/"}), R"({"/a~1b/m~0n/1/":7})");
  EXPECT_EQ(canonical(R"({"\u0061":7})", {"/a"}), R"({"/a":7})");
  EXPECT_EQ(canonical("[1,2]", {"/01", "/-", "/2", "/+1", "/0/0"}), "{}");
  EXPECT_EQ(canonical(R"({"0":1})", {"/0"}), R"({"/0":1})");
  EXPECT_EQ(canonical(R"({"b":1,"a":2})", {""}), R"({"":{"a":2,"b":1}})");
}

TEST(CanonicalJson, a_pointer_needs_its_whole_way) {
  EXPECT_EQ(canonical(R"({"x":{"a":{"b":1}},"b":2,"a":{"c":{"b":3}}})", {"/a/b"}), "{}");
  EXPECT_EQ(canonical(R"({"a":{"c":1},"x":{"b":2}})", {"/a/b"}), "{}");
  EXPECT_EQ(canonical(R"({"a":[{"b":1},{"b":2}]})", {"/a/1/b"}), R"({"/a/1/b":2})");
}

TEST(CanonicalJson, exclude_cuts_into_what_is_included) {
  const char* json = R"({"a":{"keep":1,"drop":{"x":2}},"b":3})";
  EXPECT_EQ(canonical(json, {"/a", "/a/drop/x"}, {"/a/drop"}), R"({"/a":{"keep":1}})");
  EXPECT_EQ(canonical(json, {"/a/drop/x", "/a/drop", "/b"}, {"/a"}), R"({"/b":3})");
  EXPECT_EQ(canonical(json, {"/a", "/a/keep"}), R"({"/a":{"drop":{"x":2},"keep":1},"/a/keep":1})");
}

TEST(CanonicalJson, a_setting_that_is_no_pointer_never_makes_bodies_equal) {
  for (const char* pointer : {"a", "a/b", "/a~", "/a~2", "~0"}) {
    EXPECT_EQ(canonical("{\"a\":1}", {pointer}), "none") << pointer;
    EXPECT_EQ(canonical("{\"a\":1}", {}, {pointer}), "none") << pointer;
  }
}

}  // namespace once::core::json_canonical_test
