// The memory budget of a memory store, shared by all of its shards.
#pragma once

#include <atomic>
#include <cstddef>

#include "base/layers.hpp"

namespace once::memory {

class Budget {
 public:
  explicit Budget(std::size_t most) : most_(most) {}

  std::size_t most() const { return most_; }
  std::size_t used() const { return used_.load(std::memory_order_relaxed); }

  bool try_take(std::size_t bytes) {
    std::size_t used = used_.load(std::memory_order_relaxed);
    while (used + bytes <= most_) {
      if (used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // Modulo 2^64, so that adding a negative number gives bytes back.
  void add(std::size_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }

  // The most bytes that one holder may have in records that cannot be evicted, so that new keys of others find room.
  std::size_t most_pinned_by_one() const { return most_ / 4 * 3; }
  // The same for chunks of responses that are in progress.
  std::size_t most_running_of_one() const { return most_ / 3; }
  // Whether chunks of this size fit: those of all holders together take at most half of all bytes.
  bool has_room_for_chunks(std::size_t bytes) const {
    return running_.load(std::memory_order_relaxed) + bytes <= most_ / 2;
  }
  void add_running(std::size_t bytes) { running_.fetch_add(bytes, std::memory_order_relaxed); }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> running_{0};
};

}  // namespace once::memory
