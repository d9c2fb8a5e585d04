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
  // How much longer sealed data is than its plain text.
  static constexpr std::size_t overhead = nonce_size + tag_size;

  explicit Aead(const Key& key) : key_(key) {}

  // Appends nonce, ciphertext and tag. `context` is not included, but the same context is required to open it. A nonce
  // must never repeat under one key: random nonces are good for 2^32 messages. Thread-safe.
  void seal_into(std::string& out, std::string_view plain, std::string_view context, const Nonce& nonce) const;

  // The plain text; nullopt if it was not sealed with this key and context, or was changed since. Thread-safe.
  std::optional<std::string> open(std::string_view sealed, std::string_view context) const;

 private:
  Key key_;
};

}  // namespace once::base
