#include "core/json_scanner.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

#include "core/json_canonical.hpp"
#include "core/json_text.hpp"

namespace once::core {

namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

// `content` is a view of the document, or of text_ if there were escapes: valid until the next string is read.
bool JsonScanner::read_string(std::string_view& content) {
  ++at_;
  text_.clear();
  std::size_t run = at_;
  while (at_ < json_.size()) {
    const auto byte = static_cast<unsigned char>(json_[at_]);
    if (byte == '"') {
      content = json_.substr(run, at_ - run);
      ++at_;
      if (!text_.empty()) content = text_.append(content);
      return true;
    }
    if (byte == '\\') {
      text_ += json_.substr(run, at_ - run);
      if (!read_escape()) return false;
      run = at_;
      continue;
    }
    if (byte < 0x20) return false;
    const std::size_t length = byte < 0x80 ? 1 : utf8_sequence(json_.substr(at_));
    if (length == 0) return false;
    at_ += length;
  }
  return false;
}

bool JsonScanner::read_escape() {
  ++at_;
  const char kind = peek();
  ++at_;
  switch (kind) {
    case '"':
    case '\\':
    case '/': text_ += kind; return true;
    case 'b': text_ += '\b'; return true;
    case 'f': text_ += '\f'; return true;
    case 'n': text_ += '\n'; return true;
    case 'r': text_ += '\r'; return true;
    case 't': text_ += '\t'; return true;
    case 'u': break;
    default: return false;
  }
  char32_t high = 0;
  if (!read_hex4(high)) return false;
  if (high < 0xd800 || high > 0xdfff) {
    append_utf8(text_, high);
    return true;
  }
  return read_surrogates(high);
}

bool JsonScanner::read_surrogates(char32_t first) {
  const std::size_t behind_first = at_;
  char32_t second = 0;
  if (first <= 0xdbff && take('\\') && take('u') && read_hex4(second) && second >= 0xdc00 && second <= 0xdfff) {
    append_utf8(text_, 0x10000 + ((first - 0xd800) << 10U) + (second - 0xdc00));
    return true;
  }
  if (values_ == JsonValues::portable) return false;
  at_ = behind_first;
  append_utf8(text_, 0xfffd);
  return true;
}

bool JsonScanner::read_hex4(char32_t& unit) {
  const std::string_view digits = json_.substr(std::min(at_, json_.size()), 4);
  std::uint16_t value = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value, 16);
  if (digits.size() != 4 || error != std::errc() || end != digits.end()) return false;
  at_ += 4;
  unit = value;
  return true;
}

std::string_view JsonScanner::read_digits() {
  const std::size_t begin = at_;
  while (is_digit(peek())) ++at_;
  return json_.substr(begin, at_ - begin);
}

// The result saturates: a zero may have any exponent, and for other numbers the limit is lower.
std::int64_t JsonScanner::read_exponent() {
  constexpr std::int64_t saturated = 1'000'000'000'000;
  const bool negative = take('-');
  if (!negative) take('+');
  std::int64_t value = 0;
  for (const char digit : read_digits()) value = std::min(value * 10 + (digit - '0'), saturated);
  return negative ? -value : value;
}

bool JsonScanner::read_number(std::string& out) {
  const bool negative = take('-');
  const std::string_view whole = read_digits();
  if (whole.empty() || (whole.size() > 1 && whole.front() == '0')) return false;
  std::string_view fraction;
  if (take('.')) {
    fraction = read_digits();
    if (fraction.empty()) return false;
  }
  std::int64_t exponent = 0;
  if (take('e') || take('E')) {
    exponent = read_exponent();
    if (!is_digit(json_[at_ - 1])) return false;
  }

  const std::size_t begin = out.size();
  out += whole;
  out += fraction;
  exponent -= static_cast<std::int64_t>(fraction.size());
  const std::size_t first = out.find_first_not_of('0', begin);
  if (first == std::string::npos) {
    out.resize(begin + 1);
    return true;
  }
  const std::size_t last = out.find_last_not_of('0');
  exponent += static_cast<std::int64_t>(out.size() - last - 1);
  out.resize(last + 1);
  out.replace(begin, first - begin, negative ? "-" : "");
  const bool huge = exponent > max_json_exponent || exponent < -max_json_exponent;
  if (huge && values_ == JsonValues::portable) return false;
  if (exponent != 0) fmt::format_to(std::back_inserter(out), "e{}", exponent);
  return true;
}

bool JsonScanner::read_word(std::string& out, std::string_view word) {
  if (!json_.substr(at_).starts_with(word)) return false;
  out += word;
  at_ += word.size();
  return true;
}

}  // namespace once::core
