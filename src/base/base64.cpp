#include "base/base64.hpp"

#include <array>
#include <cstdint>

namespace once::base {

namespace {

constexpr std::uint8_t no_letter = 0xff;
constexpr std::size_t group_letters = 4;
constexpr std::size_t most_padding = 2;

// The alphabets differ in their last two characters.
struct Alphabet {
  std::string_view letters;
  std::array<std::uint8_t, 256> values;
};

constexpr Alphabet alphabet_of(std::string_view letters) {
  Alphabet made{.letters = letters, .values = {}};
  made.values.fill(no_letter);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    made.values[static_cast<unsigned char>(letters[i])] = static_cast<std::uint8_t>(i);
  }
  return made;
}

constexpr Alphabet for_urls = alphabet_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
constexpr Alphabet standard = alphabet_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

std::optional<std::string> decode(std::string_view text, const Alphabet& alphabet) {
  if (text.size() % group_letters == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / group_letters * 3 + 2);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char letter : text) {
    const std::uint8_t value = alphabet.values[static_cast<unsigned char>(letter)];
    if (value == no_letter) return std::nullopt;
    bits = (bits << 6U) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
      bits &= (1U << count) - 1;
    }
  }
  if (bits != 0) return std::nullopt;
  return bytes;
}

std::string encode(std::string_view bytes, const Alphabet& alphabet) {
  std::string text;
  text.reserve((bytes.size() * group_letters + 2) / 3 + most_padding);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(byte);
    count += 8;
    while (count >= 6) {
      count -= 6;
      text += alphabet.letters[(bits >> count) & 0x3fU];
    }
    bits &= (1U << count) - 1;
  }
  if (count > 0) text += alphabet.letters[(bits << (6 - count)) & 0x3fU];
  return text;
}

}  // namespace

std::optional<std::string> from_base64url(std::string_view text) {
  return decode(text, for_urls);
}

std::string to_base64url(std::string_view bytes) {
  return encode(bytes, for_urls);
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % group_letters != 0) return std::nullopt;
  for (std::size_t i = 0; i < most_padding && text.ends_with('='); ++i) text.remove_suffix(1);
  return decode(text, standard);
}

std::string to_base64(std::string_view bytes) {
  std::string text = encode(bytes, standard);
  while (text.size() % group_letters != 0) text += '=';
  return text;
}

}  // namespace once::base
