// Statistics of a journal, and the counters behind them. Thread-safe: all counters are atomic.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.hpp"

namespace once::journal {

struct JournalStats {
  enum class Condition : std::uint8_t { well, full, failed };
  Condition condition = Condition::well;
  std::uint64_t keys = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t segments = 0;
  std::uint64_t live_claims = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t syncs = 0;
  std::uint64_t refused = 0;  // claims answered `full`
  std::uint64_t bodies_dropped = 0;
  std::uint64_t expired = 0;
  std::uint64_t carried = 0;  // records copied forward
  std::uint64_t segments_dropped = 0;
  std::uint64_t read_back = 0;  // records read from a segment
  Duration clock_ahead{};       // how far the clock is ahead of the deletion time
};

using Condition = JournalStats::Condition;

// An atomic number with relaxed ordering.
template <class T>
class Counter {
 public:
  T get() const { return value_.load(std::memory_order_relaxed); }
  void set(T value) { value_.store(value, std::memory_order_relaxed); }
  void add(T by) { value_.fetch_add(by, std::memory_order_relaxed); }
  void subtract(T by) { value_.fetch_sub(by, std::memory_order_relaxed); }
  // Atomically replaces `from` by `to`, if the value is `from`.
  bool replace(T from, T to) { return value_.compare_exchange_strong(from, to, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

struct Counters {
  Counter<Condition> condition;
  Counter<std::uint64_t> disk_bytes, segments, live_claims, bytes_written, syncs, refused, bodies_dropped, expired,
      carried, segments_dropped, read_back;
  Counter<Duration> clock_ahead;
};

}  // namespace once::journal
