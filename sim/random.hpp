// Pseudo-random bytes, the same in every run.
#pragma once

#include "base/random.hpp"
#include "sim/draw.hpp"

namespace once::sim {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed = 1) : draw_(seed) {}

  void fill(std::span<std::uint8_t> out) override {
    for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(draw_.next() >> 56U);
  }

 private:
  Draw draw_;
};

}  // namespace once::sim
