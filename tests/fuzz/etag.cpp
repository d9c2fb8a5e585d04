// Entity tags in If-Match and If-None-Match: a list that is taken has exactly what was written in it.
// The input is the values of the field, one a line.
#include "core/etag.hpp"

#include <string>

#include "tests/fuzz/input.hpp"

namespace {

using once::core::TagComparison;
using once::core::TagList;

bool is_tag(std::string_view text) {
  if (text.starts_with("W/")) text.remove_prefix(2);
  return text.size() >= 2 && text.front() == '"' && text.back() == '"' && text.find('"', 1) == text.size() - 1;
}

}  // namespace

FUZZ(bytes) {
  TagList list;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (!list.add(rest.substr(0, end))) return;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const std::string ours = once::core::make_etag({.content_type = "a", .content_encoding = {}, .body = bytes});
  ONCE_ASSERT(is_tag(ours) && !ours.starts_with("W/"));
  ONCE_ASSERT(list.has(ours, TagComparison::strong) == list.any());
  // Each tag that stands alone on a line and was taken is found: by its bytes, and weakly with or without W/.
  const std::string_view first = bytes.substr(0, bytes.find('\n'));
  if (!is_tag(first) || list.empty()) return;
  const bool weak = first.starts_with("W/");
  const std::string other = weak ? std::string(first.substr(2)) : "W/" + std::string(first);
  ONCE_ASSERT(list.has(first, TagComparison::weak) && list.has(other, TagComparison::weak));
  ONCE_ASSERT(list.any() || list.has(first, TagComparison::strong) == !weak);
}
