#include "core/json_tree.hpp"

#include <algorithm>

#include "core/json_canonical.hpp"
#include "core/json_scanner.hpp"

namespace once {

namespace {

// Each read_ stands at the first character of what it reads; nullopt if that is not valid.
class Reader {
 public:
  explicit Reader(std::string_view json) : json_(json), scan_(json) {}

  std::optional<JsonTree> read_document() {
    auto tree = read_value();
    scan_.skip_space();
    if (!tree || !scan_.at_end()) return std::nullopt;
    return tree;
  }

 private:
  std::optional<JsonTree> read_value() {
    scan_.skip_space();
    switch (scan_.peek()) {
      case '{': return nested(&Reader::read_object);
      case '[': return nested(&Reader::read_array);
      case '"': {
        std::string_view content;
        if (!scan_.read_string(content)) return std::nullopt;
        return JsonTree(std::string(content));
      }
      case 't': return read_word("true", true);
      case 'f': return read_word("false", false);
      case 'n': return read_word("null", JsonTree::Null());
      default: return read_number();
    }
  }

  std::optional<JsonTree> nested(std::optional<JsonTree> (Reader::*read)()) {
    if (++depth_ > max_json_depth) return std::nullopt;
    auto tree = (this->*read)();
    --depth_;
    return tree;
  }

  std::optional<JsonTree> read_word(std::string_view word, JsonTree::Value value) {
    std::string text;
    if (!scan_.read_word(text, word)) return std::nullopt;
    return JsonTree(std::move(value));
  }

  std::optional<JsonTree> read_number() {
    const std::size_t begin = scan_.at();
    JsonTree::Number number;
    if (!scan_.read_number(number.canonical)) return std::nullopt;
    number.text = json_.substr(begin, scan_.at() - begin);
    return JsonTree(std::move(number));
  }

  std::optional<JsonTree> read_array() {
    JsonTree::Array items;
    scan_.take('[');
    scan_.skip_space();
    if (scan_.take(']')) return JsonTree(std::move(items));
    do {
      auto item = read_value();
      if (!item) return std::nullopt;
      items.push_back(*std::move(item));
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take(']')) return std::nullopt;
    return JsonTree(std::move(items));
  }

  std::optional<JsonTree> read_object() {
    JsonTree::Object members;
    scan_.take('{');
    scan_.skip_space();
    if (scan_.take('}')) return JsonTree(std::move(members));
    do {
      scan_.skip_space();
      std::string_view content;
      if (scan_.peek() != '"' || !scan_.read_string(content)) return std::nullopt;
      std::string name(content);
      scan_.skip_space();
      if (!scan_.take(':')) return std::nullopt;
      auto value = read_value();
      if (!value) return std::nullopt;
      members.emplace_back(std::move(name), *std::move(value));
      scan_.skip_space();
    } while (scan_.take(','));
    if (!scan_.take('}') || !names_differ(members)) return std::nullopt;
    return JsonTree(std::move(members));
  }

  // Which of two members of one name counts, readers do not agree on.
  static bool names_differ(const JsonTree::Object& members) {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const JsonTree::Member& member : members) names.push_back(member.first);
    std::ranges::sort(names);
    return std::ranges::adjacent_find(names) == names.end();
  }

  std::string_view json_;
  JsonScanner scan_;
  std::size_t depth_ = 0;
};

}  // namespace

std::optional<JsonTree> JsonTree::parse(std::string_view json) {
  if (json.size() > max_json_bytes) return std::nullopt;
  return Reader(json).read_document();
}

const JsonTree* JsonTree::find(std::string_view name) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  const auto found = std::ranges::find(*members, name, &Member::first);
  return found == members->end() ? nullptr : &found->second;
}

const JsonTree* JsonTree::find(const std::vector<std::string>& tokens) const {
  const JsonTree* at = this;
  for (const std::string& token : tokens) {
    if (at != nullptr) at = at->find(std::string_view(token));
  }
  return at;
}

}  // namespace once
