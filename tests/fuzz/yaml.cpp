// YAML: any text is a bounded tree with places in it or an error with one; and a value that we write is read back as it
// was. The whole input is the text.
#include "config/yaml.hpp"

#include <algorithm>

#include "core/json_text.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using once::config::YamlNode;

// Text without control characters: what a setting may hold.
bool is_printable(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = once::core::utf8_sequence(text);
    if (size == 0 || static_cast<unsigned char>(text.front()) < 0x20 || text.front() == 0x7f) return false;
    text.remove_prefix(size);
  }
  return true;
}

void check(const YamlNode& node, int lines, int depth) {
  ONCE_ASSERT(depth <= 16);
  ONCE_ASSERT(node.line >= 0 && node.line <= lines + 1 && node.column >= 0);
  ONCE_ASSERT(node.kind == YamlNode::Kind::scalar || node.text.empty());
  const bool has_children = node.kind == YamlNode::Kind::list || node.kind == YamlNode::Kind::map;
  ONCE_ASSERT(has_children || node.children.empty());
  ONCE_ASSERT(node.kind != YamlNode::Kind::map || node.children.size() % 2 == 0);
  for (const YamlNode& child : node.children) check(child, lines, depth + 1);
}

}  // namespace

FUZZ(bytes) {
  const auto lines = static_cast<int>(std::ranges::count_if(bytes, [](char c) { return c == '\n' || c == '\r'; })) + 1;
  if (const auto root = once::config::parse_yaml(bytes)) {
    check(*root, lines, 0);
  } else {
    ONCE_ASSERT(!root.error().text.empty() && root.error().line >= 0 && root.error().line <= lines + 1);
  }
  if (!is_printable(bytes)) return;
  for (const char* before : {"", "- ", "k: "}) {
    const auto read = once::config::parse_yaml(before + once::config::yaml_scalar(bytes));
    ONCE_ASSERT(read.has_value());
    const YamlNode& node = *before == '\0' ? *read : read->children.back();
    ONCE_ASSERT(node.kind == YamlNode::Kind::scalar && node.text == bytes);
  }
}
