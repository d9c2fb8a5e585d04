// Fixed-size byte strings with a tag type, and hex. Values with different tags cannot be mixed up.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::base {

template <std::size_t Size, class Tag>
struct Blob {
  static constexpr std::size_t size = Size;
  std::array<std::uint8_t, Size> bytes{};

  auto operator<=>(const Blob&) const = default;

  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), Size}; }
};

// Identifies an operation: HMAC-SHA-256 over scope and key. It is uniformly random, so any part of it is a good hash.
using OperationId = Blob<32, struct OperationIdTag>;
// SHA-256 of the request's content.
using Fingerprint = Blob<32, struct FingerprintTag>;
// The random owner id of a claim.
using Nonce = Blob<16, struct NonceTag>;

// The bytes as OpenSSL expects them.
inline const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// The value of a hex digit; -1 if it is none.
int hex_digit(char c);
std::string to_hex(std::string_view bytes);
void append_hex(std::string& out, std::string_view bytes);
std::optional<std::string> from_hex(std::string_view hex);

template <std::size_t Size, class Tag>
std::string to_hex(const Blob<Size, Tag>& blob) {
  return to_hex(blob.view());
}

}  // namespace once::base

template <std::size_t Size, class Tag>
struct std::hash<once::base::Blob<Size, Tag>> {
  std::size_t operator()(const once::base::Blob<Size, Tag>& blob) const noexcept {
    std::size_t value = 0;
    std::memcpy(&value, blob.bytes.data(), sizeof value);
    return value;
  }
};
