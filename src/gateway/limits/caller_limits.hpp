// Limits of one caller at this gateway: requests in progress, new keys a second, bytes of recorded responses. Counted
// per gateway since its start, across reloads. Callers are known by tag, never by name; those without identity are
// one caller. Addresses have a table of the same kind, because an unauthenticated client can pretend to be any number
// of callers.
//
// Memory is bounded: a caller without any counts is dropped, and beyond a fixed number the entry that was idle the
// longest is dropped, too.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/clock.hpp"
#include "core/operation.hpp"
#include "gateway/settings.hpp"

namespace once::gateway {

enum class CallerLimit : std::uint8_t { in_flight, new_keys, stored_bytes, address_new_keys, address_stored_bytes };
inline constexpr std::size_t caller_limit_count = 5;
// The name in metrics and, except for the last two, of the setting under limits.caller.
std::string_view name_of(CallerLimit limit);

// Bytes that are released when their records expire. Coarse: they may be counted for an eighth of their life too long,
// never too short.
class ExpiringBytes {
 public:
  void add(std::size_t bytes, Duration life, std::chrono::nanoseconds now);
  // Like add(), but the bytes may be counted for up to half of their life too long, which leaves more buckets to bytes
  // that live longer.
  void add_briefly(std::size_t bytes, Duration life, std::chrono::nanoseconds now);
  // Releases bytes that were added, and would have been released at `until`.
  void remove(std::size_t bytes, std::chrono::nanoseconds until, std::chrono::nanoseconds now);
  std::size_t live(std::chrono::nanoseconds now) const;
  // When the first bytes will be released; zero if there are none.
  std::chrono::nanoseconds first_end(std::chrono::nanoseconds now) const;

 private:
  struct Bucket {
    std::chrono::nanoseconds until{};
    std::size_t bytes = 0;
  };
  void add(std::size_t bytes, std::chrono::nanoseconds life, std::chrono::nanoseconds width,
           std::chrono::nanoseconds now);

  // Nine buckets are for equal lifetimes, three for bytes that were added briefly, four for the rest.
  std::array<Bucket, 16> buckets_;
};

// The bytes counted for one record.
struct StoredBytes {
  std::size_t bytes = 0;
  std::chrono::nanoseconds until{};
};

class CallerTable {
 public:
  // The limit that a caller reached, and the seconds until it may retry.
  struct Refusal {
    CallerLimit limit;
    int retry_after_seconds;
  };

  // Begins a request. Every success needs an end().
  bool begin(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  void end(const TenantTag& caller);

  // Takes a key that may be new. It is counted unless refused.
  std::optional<Refusal> take_key(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  // The key was not new: uncounts it.
  void give_back_key(const TenantTag& caller, const CallerLimits& limits);
  // Updates the bytes counted for a record, from `was` to `is`.
  void stored(const TenantTag& caller, const CallerLimits& limits, const StoredBytes& was, const StoredBytes& is,
              std::chrono::nanoseconds now);
  // Counts bytes that the store still keeps for a while, although they belong to no record any more.
  void left(const TenantTag& caller, const CallerLimits& limits, std::size_t bytes, Duration life,
            std::chrono::nanoseconds now);
  // The store has removed the record before it expired.
  void removed(const TenantTag& caller, const StoredBytes& was, std::chrono::nanoseconds now);
  // Whether the stored bytes are below the quota.
  bool has_room(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  // The bytes counted now.
  std::size_t stored_bytes(const TenantTag& caller, std::chrono::nanoseconds now);

  std::size_t size() const;

 private:
  struct Entry {
    TenantTag caller{};
    std::size_t in_flight = 0;
    double keys = 0;  // new keys that the caller may still use at once
    std::chrono::nanoseconds keys_at{};
    std::chrono::nanoseconds full_at{};  // when `keys` is full again
    ExpiringBytes stored;
  };
  struct TagHash {
    std::size_t operator()(const TenantTag& tag) const;
  };
  using Entries = std::list<Entry>;  // the last used is first
  struct Shard {
    mutable std::mutex mutex;
    Entries entries;
    std::unordered_map<TenantTag, Entries::iterator, TagHash> by_caller;

    Entry& use(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
    Entry* find(const TenantTag& caller);
    void drop_some(std::size_t most, std::chrono::nanoseconds now);
  };
  static constexpr std::size_t shard_count = 16;

  Shard& shard_of(const TenantTag& caller);

  std::array<Shard, shard_count> shards_;
};

// Counts a caller's request in progress while it lives.
class CallerUse {
 public:
  CallerUse() = default;
  // Counts nothing if the caller has reached its limit; then this tests false.
  CallerUse(CallerTable& table, const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now)
      : table_(table.begin(caller, limits, now) ? &table : nullptr), caller_(caller) {}
  CallerUse(const CallerUse&) = delete;
  CallerUse(CallerUse&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), caller_(other.caller_), counted_(other.counted_) {}
  CallerUse& operator=(CallerUse other) noexcept {
    std::swap(table_, other.table_);
    std::swap(caller_, other.caller_);
    std::swap(counted_, other.counted_);
    return *this;
  }
  ~CallerUse() {
    if (table_ != nullptr) table_->end(caller_);
  }
  explicit operator bool() const { return table_ != nullptr; }

  std::optional<CallerTable::Refusal> take_key(const CallerLimits& limits, std::chrono::nanoseconds now);
  // The key was not new.
  void give_back_key(const CallerLimits& limits);
  void stored(const CallerLimits& limits, const StoredBytes& was, const StoredBytes& is, std::chrono::nanoseconds now) {
    table_->stored(caller_, limits, was, is, now);
  }
  bool has_room(const CallerLimits& limits, std::chrono::nanoseconds now) const {
    return table_->has_room(caller_, limits, now);
  }

 private:
  CallerTable* table_ = nullptr;
  TenantTag caller_{};
  bool counted_ = false;
};

}  // namespace once::gateway
