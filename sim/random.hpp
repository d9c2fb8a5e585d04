// Random bytes that are the same in every run (splitmix64).
#pragma once

#include <cstdint>

#include "base/random.hpp"

namespace once {

class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed = 1) : state_(seed) {}

  void fill(std::span<std::uint8_t> out) override {
    for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(next() >> 56U);
  }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }

  std::uint64_t state_;
};

}  // namespace once
