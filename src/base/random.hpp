// Randomness as a port, for nonces, request ids and jitter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"

namespace once::base {

class Random {
 public:
  virtual ~Random() = default;
  virtual void fill(std::span<std::uint8_t> out) = 0;

  Nonce nonce() {
    Nonce value;
    fill(value.bytes);
    return value;
  }
};

// The kernel's generator, read in blocks so that a nonce costs no system call. One per thread.
class SystemRandom final : public Random {
 public:
  void fill(std::span<std::uint8_t> out) override;

 private:
  std::array<std::uint8_t, 4096> block_{};
  std::size_t used_ = sizeof(block_);
};

}  // namespace once::base
