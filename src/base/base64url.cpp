#include "base/base64url.hpp"

#include <array>
#include <cstdint>

namespace once {

namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::uint8_t no_letter = 0xff;

constexpr auto values = [] {
  std::array<std::uint8_t, 256> table{};
  table.fill(no_letter);
  for (std::size_t i = 0; i < letters.size(); ++i) {
    table[static_cast<unsigned char>(letters[i])] = static_cast<std::uint8_t>(i);
  }
  return table;
}();

}  // namespace

std::optional<std::string> from_base64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char letter : text) {
    const std::uint8_t value = values[static_cast<unsigned char>(letter)];
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

std::string to_base64url(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() * 4 + 2) / 3);
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char byte : bytes) {
    bits = (bits << 8U) | static_cast<unsigned char>(byte);
    count += 8;
    while (count >= 6) {
      count -= 6;
      text += letters[(bits >> count) & 0x3fU];
    }
    bits &= (1U << count) - 1;
  }
  if (count > 0) text += letters[(bits << (6 - count)) & 0x3fU];
  return text;
}

}  // namespace once
