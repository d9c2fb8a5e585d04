// A histogram with fixed buckets for /metrics. Many threads can fill it: no locks, no allocation, one relaxed add per
// bucket and sum. A snapshot taken during updates may be off by a few observations.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/layers.hpp"

namespace once::base {

struct HistogramSnapshot {
  std::vector<std::uint64_t> bounds;  // inclusive upper bounds, growing
  std::vector<std::uint64_t> counts;  // one per bound and one more for everything above; not cumulative
  std::uint64_t count = 0;
  std::uint64_t sum = 0;

  // Adds a snapshot with the same bounds; an empty one adopts them.
  void merge(const HistogramSnapshot& other) {
    if (bounds.empty()) {
      *this = other;
      return;
    }
    for (std::size_t i = 0; i < std::min(counts.size(), other.counts.size()); ++i) counts[i] += other.counts[i];
    count += other.count;
    sum += other.sum;
  }
};

template <std::size_t Buckets>
class Histogram {
 public:
  using Bounds = std::array<std::uint64_t, Buckets>;

  explicit constexpr Histogram(const Bounds& bounds) : bounds_(bounds) {}

  void observe(std::uint64_t value) {
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    counts_[static_cast<std::size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  HistogramSnapshot snapshot() const {
    HistogramSnapshot taken;
    taken.bounds.assign(bounds_.begin(), bounds_.end());
    for (const auto& bucket : counts_) {
      taken.counts.push_back(bucket.load(std::memory_order_relaxed));
      taken.count += taken.counts.back();
    }
    taken.sum = sum_.load(std::memory_order_relaxed);
    return taken;
  }

 private:
  const Bounds bounds_;
  std::array<std::atomic<std::uint64_t>, Buckets + 1> counts_{};
  std::atomic<std::uint64_t> sum_{0};
};

// first, first * factor, first * factor² …
template <std::size_t Buckets>
consteval std::array<std::uint64_t, Buckets> growing_bounds(std::uint64_t first, std::uint64_t factor) {
  std::array<std::uint64_t, Buckets> bounds{};
  std::uint64_t bound = first;
  for (std::uint64_t& each : bounds) {
    each = bound;
    bound *= factor;
  }
  return bounds;
}

}  // namespace once::base
