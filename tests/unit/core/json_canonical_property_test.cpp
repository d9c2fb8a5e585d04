// Random JSON values, each written in random spellings, against a model that knows when two values are equal.
#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/json_canonical.hpp"
#include "core/json_text.hpp"

namespace once::core::json_canonical_property_test {

// A decimal is digits * 10^exponent; equal numbers are equal here because digits has no trailing zero.
struct Value {
  enum class Kind : std::uint8_t { word, number, string, array, object };
  Kind kind = Kind::word;
  std::string text = {};  // the word, the string, or the digits
  int exponent = 0;
  std::vector<Value> elements = {};
  std::map<std::string, Value> members = {};

  bool operator==(const Value&) const = default;
};

int drawn(int from, int to) {
  return *rc::gen::inRange(from, to);
}

// From few characters, so that equal strings, shared prefixes and every kind of escape come up.
std::string drawn_text() {
  static const std::vector<char32_t> alphabet = {'a',    'b',    '"',    '\\',    '/',     '\n',
                                                 0,      0x1f,   0x7f,   0xe9,    0x20ac,  0xd7ff,
                                                 0xe000, 0xfb33, 0xffff, 0x10000, 0x1f600, 0x10ffff};
  std::string text;
  for (int length = drawn(0, 4); length > 0; --length) append_utf8(text, *rc::gen::elementOf(alphabet));
  return text;
}

Value drawn_number() {
  Value value{.kind = Value::Kind::number, .text = std::to_string(drawn(-120, 120))};
  value.exponent = drawn(-3, 4);
  if (value.text == "0") value.exponent = 0;
  while (value.text.size() > 1 && value.text.back() == '0') {
    value.text.pop_back();
    ++value.exponent;
  }
  return value;
}

Value drawn_value(int depth);

Value drawn_object(int depth, int least) {
  Value object{.kind = Value::Kind::object};
  for (int size = drawn(least, 5); size > 0; --size) object.members[drawn_text()] = drawn_value(depth - 1);
  return object;
}

Value drawn_value(int depth) {
  switch (drawn(0, depth > 0 ? 5 : 3)) {
    case 0: return {.kind = Value::Kind::word, .text = *rc::gen::element<std::string>("true", "false", "null")};
    case 1: return drawn_number();
    case 2: return {.kind = Value::Kind::string, .text = drawn_text()};
    case 3: {
      Value array{.kind = Value::Kind::array};
      for (int size = drawn(0, 4); size > 0; --size) array.elements.push_back(drawn_value(depth - 1));
      return array;
    }
    default: return drawn_object(depth, 0);
  }
}

std::string space() {
  return *rc::gen::element<std::string>("", "", " ", "\t", "\r\n");
}

std::string hex_escape(char32_t unit) {
  const std::string digits = *rc::gen::arbitrary<bool>() ? "0123456789abcdef" : "0123456789ABCDEF";
  std::string text = "\\u";
  for (const unsigned shift : {12U, 8U, 4U, 0U}) text += digits[(unit >> shift) & 15U];
  return text;
}

char32_t code_point(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead;
  char32_t value = lead & (0x7fU >> sequence.size());
  for (const char c : sequence.substr(1)) value = (value << 6U) | (static_cast<unsigned char>(c) & 0x3fU);
  return value;
}

std::string spell_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::string_view sequence = text.substr(0, utf8_sequence(text));
    text.remove_prefix(sequence.size());
    const char32_t point = code_point(sequence);
    if (*rc::gen::arbitrary<bool>()) {
      std::string one;
      append_json_string(one, sequence);
      out += one.substr(1, one.size() - 2);
    } else if (point < 0x10000) {
      out += hex_escape(point);
    } else {
      out += hex_escape(0xd800 + ((point - 0x10000) >> 10U)) + hex_escape(0xdc00 + ((point - 0x10000) & 0x3ffU));
    }
  }
  return out + '"';
}

std::string spell_number(const Value& value) {
  std::string digits = value.text;
  int exponent = value.exponent;
  for (int zeros = drawn(0, 3); digits != "0" && zeros > 0; --zeros) {
    digits += '0';
    --exponent;
  }
  if (*rc::gen::arbitrary<bool>()) {
    // Move the point to before the last digit, with a zero in front if nothing else is.
    const std::size_t first = digits.front() == '-' ? 1 : 0;
    if (digits.size() - first == 1) digits.insert(first, "0");
    digits.insert(digits.size() - 1, ".");
    ++exponent;
  }
  if (exponent == 0 && *rc::gen::arbitrary<bool>()) return digits;
  const std::string sign = exponent < 0 ? "-" : *rc::gen::element<std::string>("", "+");
  return digits + *rc::gen::element<std::string>("e", "E") + sign + *rc::gen::element<std::string>("", "0", "00") +
         std::to_string(std::abs(exponent));
}

std::string spell(const Value& value);

std::string spell_list(char open, const std::vector<std::string>& items, char close) {
  std::string out = space() + open + space();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    out += space() + items[i] + space();
  }
  return out + close + space();
}

std::string spell(const Value& value) {
  std::vector<std::string> items;
  switch (value.kind) {
    case Value::Kind::word: return value.text;
    case Value::Kind::number: return spell_number(value);
    case Value::Kind::string: return spell_string(value.text);
    case Value::Kind::array:
      for (const Value& element : value.elements) items.push_back(spell(element));
      return spell_list('[', items, ']');
    case Value::Kind::object:
      for (const auto& [name, member] : value.members) {
        const auto at = items.begin() + drawn(0, static_cast<int>(items.size()) + 1);
        items.insert(at, spell_string(name) + space() + ":" + space() + spell(member));
      }
      return spell_list('{', items, '}');
  }
  return {};
}

std::string escaped_token(const std::string& name) {
  std::string token;
  for (const char c : name) token += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return token;
}

RC_GTEST_PROP(CanonicalJsonProperty, all_spellings_of_a_value_have_one_form, ()) {
  const Value value = drawn_value(3);
  const auto one = canonical_json(spell(value));
  const auto other = canonical_json(spell(value));
  RC_ASSERT(one.has_value());
  RC_ASSERT(one == other);
}

RC_GTEST_PROP(CanonicalJsonProperty, two_values_never_share_a_form, ()) {
  const Value a = drawn_value(2);
  const Value b = drawn_value(2);
  RC_CLASSIFY(a == b);
  RC_ASSERT((canonical_json(spell(a)) == canonical_json(spell(b))) == (a == b));
}

RC_GTEST_PROP(CanonicalJsonProperty, a_form_is_its_own_form, ()) {
  const auto form = canonical_json(spell(drawn_value(3)));
  RC_ASSERT(form.has_value());
  RC_ASSERT(canonical_json(*form) == form);
}

RC_GTEST_PROP(CanonicalJsonProperty, excluding_a_member_is_as_if_it_were_not_there, ()) {
  Value value = drawn_object(3, 1);
  const std::string name = std::next(value.members.begin(), drawn(0, static_cast<int>(value.members.size())))->first;
  const std::vector<std::string> exclude = {"/" + escaped_token(name)};
  const auto excluded = canonical_json(spell(value), {}, exclude);
  value.members.erase(name);
  RC_ASSERT(excluded.has_value());
  RC_ASSERT(excluded == canonical_json(spell(value)));
}

RC_GTEST_PROP(CanonicalJsonProperty, including_a_member_is_looking_at_it_alone, ()) {
  const Value value = drawn_object(3, 1);
  const auto& [name, member] = *value.members.begin();
  const std::vector<std::string> include = {"/" + escaped_token(name)};
  Value expected{.kind = Value::Kind::object};
  expected.members[include.front()] = member;
  RC_ASSERT(canonical_json(spell(value), include) == canonical_json(spell(expected)));
}

RC_GTEST_PROP(CanonicalJsonProperty, damaged_text_is_refused_or_has_a_stable_form, ()) {
  std::string json = spell(drawn_value(3));
  for (int changes = drawn(1, 4); changes > 0 && !json.empty(); --changes) {
    const auto at = *rc::gen::inRange<std::size_t>(0, json.size());
    if (*rc::gen::arbitrary<bool>()) {
      json.erase(at, 1);
    } else {
      json[at] = *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("{}[]\",:\\0e-.u")));
    }
  }
  const auto form = canonical_json(json);
  if (form) RC_ASSERT(canonical_json(*form) == form);
}

RC_GTEST_PROP(CanonicalJsonProperty, any_bytes_are_safe, (const std::string& bytes)) {
  const auto form = canonical_json(bytes);
  if (form) RC_ASSERT(canonical_json(*form) == form);
}

}  // namespace once::core::json_canonical_property_test
