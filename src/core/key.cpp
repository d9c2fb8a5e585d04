#include "core/key.hpp"

#include <algorithm>
#include <optional>

#include "base/assert.hpp"

namespace once::core {

namespace {

constexpr bool is_visible(char c) {
  return c >= 0x21 && c <= 0x7e;
}

constexpr bool is_printable(char c) {
  return c == ' ' || is_visible(c);
}

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

std::expected<Key, KeyError> parse_bare(std::string_view text, std::size_t max_length) {
  if (text.size() > max_length) return std::unexpected(KeyError::too_long);
  for (const char c : text) {
    if (!is_visible(c)) return std::unexpected(KeyError::bad_character);
  }
  return Key::viewing(text);
}

std::string unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') ++i;
    plain.push_back(text[i]);
  }
  return plain;
}

// For a string after its opening quote: the position of the closing quote, or the end of the text.
std::size_t end_of_string(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end, text.size());
}

// What follows the parameters of an item, such as ;a;b=1;c="x". nullopt: they are malformed.
std::optional<std::string_view> skip_parameters(std::string_view text) {
  constexpr std::string_view name_characters = "abcdefghijklmnopqrstuvwxyz0123456789_-.*";
  while (text.starts_with(';')) {
    text.remove_prefix(std::min(text.find_first_not_of(' ', 1), text.size()));
    const std::size_t name = std::min(text.find_first_not_of(name_characters), text.size());
    if (name == 0 || text.front() == '-' || text.front() == '.' || (text.front() >= '0' && text.front() <= '9')) {
      return std::nullopt;
    }
    text.remove_prefix(name);
    if (!text.starts_with('=')) continue;
    text.remove_prefix(1);
    if (text.starts_with('"')) {
      const std::size_t end = 1 + end_of_string(text.substr(1));
      if (end >= text.size()) return std::nullopt;
      text.remove_prefix(end + 1);
    } else {
      const std::size_t end = std::min(text.find_first_of(" \t,;\""), text.size());
      if (end == 0) return std::nullopt;
      text.remove_prefix(end);
    }
  }
  return text;
}

// `text` starts after the opening quote.
std::expected<Key, KeyError> parse_quoted(std::string_view text, std::size_t max_length) {
  std::size_t escapes = 0;
  std::size_t end = 0;
  for (; end < text.size() && text[end] != '"'; ++end) {
    if (text[end] == '\\') {
      ++escapes;
      ++end;
      if (end == text.size() || (text[end] != '"' && text[end] != '\\')) return std::unexpected(KeyError::bad_string);
    }
    if (!is_printable(text[end])) return std::unexpected(KeyError::bad_character);
    // Check the length here, so that no more of a value is read than the longest key has.
    if (end + 1 - escapes > max_length) return std::unexpected(KeyError::too_long);
  }
  if (end == text.size()) return std::unexpected(KeyError::bad_string);

  const auto behind = skip_parameters(text.substr(end + 1));
  if (!behind) return std::unexpected(KeyError::bad_string);
  const std::string_view after = without_leading_space(*behind);
  // A proxy may join repeated headers with commas.
  if (!after.empty()) return std::unexpected(after.front() == ',' ? KeyError::several : KeyError::bad_string);
  if (end == 0) return std::unexpected(KeyError::empty);
  const std::string_view content = text.substr(0, end);
  return escapes == 0 ? Key::viewing(content) : Key::owning(unescape(content));
}

}  // namespace

std::expected<Key, KeyError> parse_key(std::string_view header_value, std::size_t max_length) {
  std::string_view text = without_leading_space(header_value);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  if (text.empty()) return std::unexpected(KeyError::empty);
  return text.front() == '"' ? parse_quoted(text.substr(1), max_length) : parse_bare(text, max_length);
}

const char* describe(KeyError error) {
  switch (error) {
    case KeyError::empty: return "The idempotency key is empty.";
    case KeyError::too_long: return "The idempotency key is too long.";
    case KeyError::bad_character:
      return "The idempotency key contains characters other than visible ASCII. Spaces need quotes around the key.";
    case KeyError::bad_string: return "The idempotency key starts with a quote but is not a single quoted string.";
    case KeyError::several: return "The request has more than one idempotency key.";
  }
  ONCE_ASSERT(false);
}

}  // namespace once::core
