// Keys: what is taken is printable ASCII within the limit, has one spelling per form, and no other limit changes it.
#include "core/key.hpp"

#include <algorithm>
#include <string>

#include "tests/fuzz/input.hpp"

namespace {

std::string quoted(std::string_view key) {
  std::string text = "\"";
  for (const char c : key) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

void spells(std::string_view value, std::string_view key) {
  const auto parsed = once::core::parse_key(value, key.size());
  ONCE_ASSERT(parsed && parsed->view() == key);
  if (key.size() == 1) return;
  const auto shorter = once::core::parse_key(value, key.size() - 1);
  ONCE_ASSERT(!shorter && shorter.error() == once::core::KeyError::too_long);
}

}  // namespace

FUZZ(bytes) {
  for (const std::size_t limit : {std::size_t{1}, std::size_t{8}, std::size_t{255}}) {
    const auto key = once::core::parse_key(bytes, limit);
    if (!key) {
      ONCE_ASSERT(!std::string_view(once::core::describe(key.error())).empty());
      continue;
    }
    const std::string_view view = key->view();
    ONCE_ASSERT(!view.empty() && view.size() <= limit);
    ONCE_ASSERT(std::ranges::all_of(view, [](char c) { return c >= ' ' && c < 0x7f; }));
    spells(bytes, view);
    spells(quoted(view), view);
    spells(" \t" + quoted(view) + "\t ", view);
    if (view.front() != '"' && !view.contains(' ')) spells(view, view);
    spells(quoted(view) + ";a=1;b=\"\\\", \"", view);
    const auto two = once::core::parse_key(quoted(view) + ", " + quoted(view), limit);
    ONCE_ASSERT(!two && two.error() == once::core::KeyError::several);
  }
}
