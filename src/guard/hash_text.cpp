#include <array>

#include <once/guard.hpp>

#include "base/bytes.hpp"
#include "base/sha256.hpp"
#include "core/json_text.hpp"

namespace once::guard {

namespace {

// White space as in JavaScript's \s, so that all clients hash a text alike: its length at the start, or 0.
std::size_t space_at(std::string_view text) {
  constexpr std::array<std::string_view, 18> wide = {"\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                                     "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009",
                                                     "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  constexpr std::string_view byte_order_mark = "\uFEFF";
  const char first = text.front();
  if (first == ' ' || (first >= '\t' && first <= '\r')) return 1;
  if (static_cast<unsigned char>(first) < 0x80) return 0;
  for (const std::string_view each : wide) {
    if (text.starts_with(each)) return each.size();
  }
  return text.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
}

}  // namespace

std::string hash_text(std::string_view text) {
  Sha256 hash;
  bool space = false;
  bool begun = false;
  while (!text.empty()) {
    if (const std::size_t bytes = space_at(text); bytes != 0) {
      space = true;
      text.remove_prefix(bytes);
      continue;
    }
    std::size_t word = 1;
    while (word < text.size() && space_at(text.substr(word)) == 0) ++word;
    if (space && begun) hash.update(" ");
    hash.update(text.substr(0, word));
    begun = true;
    space = false;
    text.remove_prefix(word);
  }
  const Digest digest = hash.digest();
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace once::guard
