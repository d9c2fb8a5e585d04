#include "base/bytes.hpp"

#include <array>
#include <cstring>

namespace once::base {

namespace {

// The two hex digits of every byte value.
constexpr std::array<std::array<char, 2>, 256> hex_pairs = [] {
  constexpr std::string_view digits = "0123456789abcdef";
  std::array<std::array<char, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < pairs.size(); ++byte) pairs[byte] = {digits[byte / 16], digits[byte % 16]};
  return pairs;
}();

}  // namespace

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_hex(std::string& out, std::string_view bytes) {
  const std::size_t start = out.size();
  out.resize(start + bytes.size() * 2);
  char* position = out.data() + start;
  for (const char c : bytes) {
    std::memcpy(position, hex_pairs[static_cast<unsigned char>(c)].data(), 2);
    position += 2;
  }
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  append_hex(hex, bytes);
  return hex;
}

std::optional<std::string> from_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = hex_digit(hex[i]);
    const int low = hex_digit(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high * 16 + low));
  }
  return bytes;
}

}  // namespace once::base
