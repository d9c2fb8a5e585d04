// Canonical JSON: the canonical form is its own, it is JSON, and other spellings of the same value have the same one.
// The whole input is the document.
#include "core/json_canonical.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/json_text.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using once::core::canonical_json;

// Valid JSON with white space around every token and every letter in a string escaped.
std::string spelled_otherwise(std::string_view json) {
  std::string out;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      const std::size_t size = json[i + 1] == 'u' ? 6 : 2;
      out += json.substr(i, size);
      i += size - 1;
    } else if (in_string && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/')) {
      out += fmt::format("\\u{:04X}", c);
    } else if (c == '"') {
      in_string = !in_string;
      out += c;
    } else if (!in_string && std::string_view("{}[],:").contains(c)) {
      (out += "\r\n\t ") += c;
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

bool is_clean_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = once::core::utf8_sequence(text);
    if (size == 0 || static_cast<unsigned char>(text.front()) < 0x20) return false;
    text.remove_prefix(size);
  }
  return true;
}

bool is_shallow(std::string_view canonical) {
  return std::ranges::count_if(canonical, [](char c) { return c == '[' || c == '{'; }) <
         static_cast<std::ptrdiff_t>(once::core::max_json_depth);
}

}  // namespace

FUZZ(bytes) {
  const auto canonical = canonical_json(bytes);
  if (!canonical) {
    // Nothing around it makes it valid.
    ONCE_ASSERT(!canonical_json(fmt::format("{{\"a\":{}}}", bytes)) || bytes.contains(','));
    return;
  }
  ONCE_ASSERT(!canonical->empty() && is_clean_utf8(*canonical));
  ONCE_ASSERT(canonical_json(*canonical) == canonical);
  ONCE_ASSERT(canonical_json(spelled_otherwise(bytes)) == canonical);
  ONCE_ASSERT(canonical_json(spelled_otherwise(*canonical)) == canonical);

  const std::vector<std::string> root = {""};
  ONCE_ASSERT(canonical_json(bytes, root) == fmt::format("{{\"\":{}}}", *canonical));
  ONCE_ASSERT(canonical_json(bytes, {}, root) == "");
  if (!is_shallow(*canonical)) return;
  ONCE_ASSERT(canonical_json(fmt::format("[{0},1.0,{0}]", bytes)) == fmt::format("[{0},1,{0}]", *canonical));
  const std::string pair = fmt::format("{{\"b\":{0},\"a\":{0}}}", bytes);
  ONCE_ASSERT(canonical_json(pair) == fmt::format("{{\"a\":{0},\"b\":{0}}}", *canonical));
  const std::vector<std::string> member = {"/b"};
  ONCE_ASSERT(canonical_json(pair, {}, member) == fmt::format("{{\"a\":{}}}", *canonical));
  ONCE_ASSERT(canonical_json(pair, member) == fmt::format("{{\"/b\":{}}}", *canonical));
  ONCE_ASSERT(!canonical_json(fmt::format("{{\"a\":{0},\"\\u0061\":{0}}}", bytes)));
}
