// What one caller may take of this gateway: requests at work, new keys a second, bytes of recorded answers. Counted for
// each gateway since its start, whatever the settings were meanwhile. Callers are known by their tag, never by name;
// those without any identity are one caller. Addresses have a table of the same kind, because anybody can be as many
// callers as they like where nobody checks who they are.
//
// Memory is bounded: a caller that has nothing to be remembered for is dropped, and beyond limits.caller.tracked the
// one that was idle the longest starts anew.
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
// As it stands in the metrics, and but for the last two in the settings behind limits.caller.
std::string_view name_of(CallerLimit limit);

// Bytes that go away by themselves when what they belong to expires. Coarse: they may be counted for an eighth of their
// life too long, never too short.
class ExpiringBytes {
 public:
  void add(std::size_t bytes, Duration life, std::chrono::nanoseconds now);
  // Coarser: up to half of their life too long, so that they leave buckets to what lives longer.
  void add_briefly(std::size_t bytes, Duration life, std::chrono::nanoseconds now);
  // Some that were added, and would have gone at that time.
  void remove(std::size_t bytes, std::chrono::nanoseconds until, std::chrono::nanoseconds now);
  std::size_t live(std::chrono::nanoseconds now) const;
  // When the first of them will go; zero if there are none.
  std::chrono::nanoseconds first_end(std::chrono::nanoseconds now) const;

 private:
  struct Bucket {
    std::chrono::nanoseconds until{};
    std::size_t bytes = 0;
  };
  void add(std::size_t bytes, std::chrono::nanoseconds life, std::chrono::nanoseconds width,
           std::chrono::nanoseconds now);

  // Nine for what lives equally long, three for what was added briefly, four for the rest.
  std::array<Bucket, 16> buckets_;
};

// What is counted for one record.
struct StoredBytes {
  std::size_t bytes = 0;
  std::chrono::nanoseconds until{};
};

class CallerTable {
 public:
  // Of a caller that reached a limit: which one, and after how many seconds to try again.
  struct Refusal {
    CallerLimit limit;
    int retry_after_seconds;
  };

  // A request begins; every success needs an end().
  bool begin(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  void end(const TenantTag& caller);

  // A key that may be new. Counted as such unless refused.
  std::optional<Refusal> take_key(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  // It was not new.
  void give_back_key(const TenantTag& caller, const CallerLimits& limits);
  // The store has this for a record, and had that before.
  void stored(const TenantTag& caller, const CallerLimits& limits, const StoredBytes& was, const StoredBytes& is,
              std::chrono::nanoseconds now);
  // The store has this much for a while that belongs to no record any more.
  void left(const TenantTag& caller, const CallerLimits& limits, std::size_t bytes, Duration life,
            std::chrono::nanoseconds now);
  // The store has removed it before its time.
  void removed(const TenantTag& caller, const StoredBytes& was, std::chrono::nanoseconds now);
  // Whether less is counted than the quota of stored bytes.
  bool has_room(const TenantTag& caller, const CallerLimits& limits, std::chrono::nanoseconds now);
  // What is counted at the moment.
  std::size_t stored_bytes(const TenantTag& caller, std::chrono::nanoseconds now);

  std::size_t size() const;

 private:
  struct Entry {
    TenantTag caller{};
    std::size_t in_flight = 0;
    double keys = 0;  // that may still come at once
    std::chrono::nanoseconds keys_at{};
    std::chrono::nanoseconds full_at{};  // when there will be as many of them as there can be
    ExpiringBytes stored;
  };
  struct TagHash {
    std::size_t operator()(const TenantTag& tag) const;
  };
  using Entries = std::list<Entry>;  // the one used last is first
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

// A request of a caller at work, for as long as this is held.
class CallerUse {
 public:
  CallerUse() = default;
  // False afterwards: the caller has as many at work as it may.
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
  // The key was known before.
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
