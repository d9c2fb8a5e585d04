#include "core/json_walk.hpp"

#include <string>

namespace once::core {

namespace {

class Walk {
 public:
  Walk(std::string_view json, const JsonRules& rules, JsonVisitor& visitor)
      : json_(json), rules_(rules), scan_(json, rules.values), visitor_(visitor) {}

  bool document() {
    scan_.skip_space();
    if (!value()) return false;
    scan_.skip_space();
    return scan_.at_end();
  }

 private:
  bool value() {
    switch (scan_.peek()) {
      case '{': return container(JsonContainer::object, '}', &Walk::member);
      case '[': return container(JsonContainer::array, ']', &Walk::value);
      case '"': return string();
      case 't': return word("true", JsonScalar::Kind::boolean);
      case 'f': return word("false", JsonScalar::Kind::boolean);
      case 'n': return word("null", JsonScalar::Kind::null);
      default: return number();
    }
  }

  bool container(JsonContainer kind, char close, bool (Walk::*item)()) {
    if (depth_ == rules_.depth || !visitor_.begin(kind)) return false;
    ++depth_;
    const std::size_t begin = scan_.at();
    scan_.take(scan_.peek());
    scan_.skip_space();
    if (!scan_.take(close)) {
      do {
        scan_.skip_space();
        if (!(this->*item)()) return false;
        scan_.skip_space();
      } while (scan_.take(','));
      if (!scan_.take(close)) return false;
    }
    --depth_;
    return visitor_.end(kind, from(begin));
  }

  bool member() {
    const std::size_t begin = scan_.at();
    std::string_view content;
    if (scan_.peek() != '"' || !scan_.read_string(content) || !visitor_.name(content, from(begin))) return false;
    scan_.skip_space();
    if (!scan_.take(':')) return false;
    scan_.skip_space();
    return value();
  }

  bool string() {
    const std::size_t begin = scan_.at();
    std::string_view content;
    return scan_.read_string(content) && report(JsonScalar::Kind::string, content, begin);
  }

  bool number() {
    const std::size_t begin = scan_.at();
    number_.clear();
    return scan_.read_number(number_) && report(JsonScalar::Kind::number, number_, begin);
  }

  bool word(std::string_view word, JsonScalar::Kind kind) {
    const std::size_t begin = scan_.at();
    std::string ignored;
    return scan_.read_word(ignored, word) && report(kind, word, begin);
  }

  bool report(JsonScalar::Kind kind, std::string_view content, std::size_t begin) {
    return visitor_.scalar({.kind = kind, .content = content, .written = from(begin)});
  }

  std::string_view from(std::size_t begin) const { return json_.substr(begin, scan_.at() - begin); }

  const std::string_view json_;
  const JsonRules rules_;
  JsonScanner scan_;
  JsonVisitor& visitor_;
  std::size_t depth_ = 0;
  std::string number_;
};

}  // namespace

bool walk_json(std::string_view json, const JsonRules& rules, JsonVisitor& visitor) {
  return Walk(json, rules, visitor).document();
}

}  // namespace once::core
