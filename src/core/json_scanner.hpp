// Reads the scalars of a JSON text, strictly (RFC 8259), and writes them in canonical form. json_canonical.cpp handles
// objects and arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// How to treat values that parsers disagree on: escaped lone surrogates, which JavaScript writes, and numbers with huge
// exponents.
enum class JsonValues : std::uint8_t {
  portable,  // they are refused
  any,       // they are valid, but only their written form is exact, not their content
};

// Each read_ function begins at the first character of its token, and returns false if the token is invalid. After
// false the scanner must not be used.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view json, JsonValues values = JsonValues::portable)
      : json_(json), values_(values) {}

  // The current offset: the text between two offsets is a value as written.
  std::size_t at() const { return at_; }
  bool at_end() const { return at_ == json_.size(); }
  // 0 at the end; a 0 in the text is never valid.
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= json_.size() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < json_.size() && std::string_view(" \t\r\n").contains(json_[at_])) ++at_;
  }

  // `content`, without quotes and escapes, is valid UTF-8 and stays valid until the next string is read.
  bool read_string(std::string_view& content);
  // Appends the digits without leading and trailing zeros and, unless the number is 0, the exponent that makes up for
  // them. Also false if that exponent is past max_json_exponent and values must be portable.
  bool read_number(std::string& out);
  // Reads true, false or null.
  bool read_word(std::string& out, std::string_view word);

 private:
  bool read_escape();
  bool read_surrogates(char32_t first);
  bool read_hex4(char32_t& unit);
  std::string_view read_digits();
  std::int64_t read_exponent();

  std::string_view json_;
  JsonValues values_;
  std::size_t at_ = 0;
  std::string text_;  // the last string, if it had escapes
};

}  // namespace once::core
