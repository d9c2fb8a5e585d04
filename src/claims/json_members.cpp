#include "claims/json_members.hpp"

#include <algorithm>

#include "core/json_scanner.hpp"
#include "core/json_text.hpp"

namespace once {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Finds where things end. Each skip_ stands at the first character of a thing and returns false if it is not valid.
class Skipper {
 public:
  explicit Skipper(std::string_view json) : json_(json) {}

  std::size_t at() const { return at_; }
  bool at_end() const { return at_ == json_.size(); }
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  bool take(char c) {
    if (at_end() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (!at_end() && std::string_view(" \t\r\n").contains(json_[at_])) ++at_;
  }
  std::string_view from(std::size_t begin) const { return json_.substr(begin, at_ - begin); }

  bool skip_value(std::size_t depth) {
    switch (peek()) {
      case '{': return depth < max_members_depth && skip_object(depth + 1);
      case '[': return depth < max_members_depth && skip_array(depth + 1);
      case '"': return skip_string();
      case 't': return skip_word("true");
      case 'f': return skip_word("false");
      case 'n': return skip_word("null");
      default: return skip_number();
    }
  }

  bool skip_string() {
    if (!take('"')) return false;
    while (!at_end()) {
      const auto c = static_cast<unsigned char>(json_[at_]);
      if (c == '"') return take('"');
      if (c < ' ') return false;
      if (c == '\\') {
        if (!skip_escape()) return false;
        continue;
      }
      const std::size_t bytes = utf8_sequence(json_.substr(at_));
      if (bytes == 0) return false;
      at_ += bytes;
    }
    return false;
  }

 private:
  bool skip_object(std::size_t depth) {
    take('{');
    skip_space();
    if (take('}')) return true;
    do {
      skip_space();
      if (!skip_string()) return false;
      skip_space();
      if (!take(':')) return false;
      skip_space();
      if (!skip_value(depth)) return false;
      skip_space();
    } while (take(','));
    return take('}');
  }

  bool skip_array(std::size_t depth) {
    take('[');
    skip_space();
    if (take(']')) return true;
    do {
      skip_space();
      if (!skip_value(depth)) return false;
      skip_space();
    } while (take(','));
    return take(']');
  }

  bool skip_word(std::string_view word) {
    if (!json_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool skip_escape() {
    take('\\');
    if (!take('u')) {
      if (at_end() || !std::string_view("\"\\/bfnrt").contains(json_[at_])) return false;
      ++at_;
      return true;
    }
    constexpr std::size_t digits = 4;
    const std::string_view hex = json_.substr(at_, digits);
    if (hex.size() < digits || !std::ranges::all_of(hex, is_hex_digit)) return false;
    at_ += digits;
    return true;
  }

  bool skip_digits() {
    if (!is_digit(peek())) return false;
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool skip_number() {
    take('-');
    if (!take('0') && !skip_digits()) return false;
    if (take('.') && !skip_digits()) return false;
    if (!take('e') && !take('E')) return true;
    if (!take('+')) take('-');
    return skip_digits();
  }

  std::string_view json_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::string> json_string(std::string_view value) {
  JsonScanner scan(value);
  std::string_view content;
  if (scan.peek() != '"' || !scan.read_string(content) || !scan.at_end()) return std::nullopt;
  return std::string(content);
}

bool is_json_value(std::string_view json) {
  Skipper skipper(json);
  skipper.skip_space();
  if (!skipper.skip_value(0)) return false;
  skipper.skip_space();
  return skipper.at_end();
}

std::optional<std::vector<JsonMember>> json_members(std::string_view json) {
  std::vector<JsonMember> members;
  Skipper skipper(json);
  skipper.skip_space();
  if (!skipper.take('{')) return std::nullopt;
  skipper.skip_space();
  if (!skipper.take('}')) {
    do {
      skipper.skip_space();
      const std::size_t name_begin = skipper.at();
      if (!skipper.skip_string()) return std::nullopt;
      const auto name = json_string(skipper.from(name_begin));
      skipper.skip_space();
      if (!name || !skipper.take(':')) return std::nullopt;
      skipper.skip_space();
      const std::size_t value_begin = skipper.at();
      if (!skipper.skip_value(0)) return std::nullopt;
      if (std::ranges::find(members, *name, &JsonMember::name) != members.end()) return std::nullopt;
      // What nobody asked for is refused as soon as it is looked at; this bounds the look for twins.
      constexpr std::size_t most_members = 64;
      if (members.size() == most_members) return std::nullopt;
      members.push_back({.name = *name, .value = skipper.from(value_begin)});
      skipper.skip_space();
    } while (skipper.take(','));
    if (!skipper.take('}')) return std::nullopt;
  }
  skipper.skip_space();
  if (!skipper.at_end()) return std::nullopt;
  return members;
}

}  // namespace once
