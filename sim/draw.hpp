// Pseudo-random numbers from a seed (splitmix64): the same seed gives the same numbers on every machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>

#include "base/clock.hpp"

namespace once::sim {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }
  // 0 … bound - 1
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  bool percent(std::uint64_t chance) { return below(100) < chance; }

  // Mostly short, sometimes long, like delays of networks and disks.
  Duration between(Duration least, Duration most) {
    const auto range = static_cast<std::uint64_t>((most - least).count()) + 1;
    const std::uint64_t drawn = one_in(4) ? below(range) : below(range / 8 + 1);
    return least + Duration(static_cast<Duration::rep>(drawn));
  }
  // Uniformly distributed.
  Duration below(Duration bound) {
    return Duration(static_cast<Duration::rep>(below(static_cast<std::uint64_t>(bound.count()))));
  }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace once::sim
