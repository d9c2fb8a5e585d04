// Authenticated encryption: AES-256-GCM. Sealed data opens only with the same key and context, and only if no bit has
// changed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::base {

class Aead {
 public:
  using Key = std::array<std::uint8_t, 32>;
  static constexpr std::size_t nonce_size = 12;
  using Nonce = std::array<std::uint8_t, nonce_size>;
  static constexpr std::size_t tag_size = 16;
  // How much longer what is sealed is than what it was made from.
  static constexpr std::size_t overhead = nonce_size + tag_size;

  explicit Aead(const Key& key) : key_(key) {}

  // Appends nonce, ciphertext and tag. `context` is not part of it, but must be the same to open it. The nonce must
  // never come twice under one key: a random one is good for 2^32 messages. From any thread.
  void seal_into(std::string& out, std::string_view plain, std::string_view context, const Nonce& nonce) const;

  // Nothing if it was not sealed with this key and context, or was changed since. From any thread.
  std::optional<std::string> open(std::string_view sealed, std::string_view context) const;

 private:
  Key key_;
};

}  // namespace once::base
