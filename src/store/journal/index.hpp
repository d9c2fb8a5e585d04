// The journal's index in memory: where every record is, in shards with a lock each.
//
// Locks. Looking needs the lock of the key's shard, for a moment, and never waits for the disk. Changing needs the
// writer's lock as well, which a reference to the Appender shows: so whoever has that lock sees nothing change. The one
// exception is the order in which records were last used, which answer() changes with the shard's lock alone. Lock
// order: the writer's first, then one shard's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/synchronized.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/shard.hpp"
#include "store/journal/stats.hpp"
#include "store/store.hpp"

namespace once::journal {

class Appender;

class Index {
 public:
  static constexpr std::size_t shard_count = 64;

  explicit Index(const JournalSettings& settings);

  Locked<const Shard> look(const OperationId& id) const { return look_at(number_of(id)); }
  Locked<const Shard> look_at(std::size_t shard) const { return cells_[shard].shard.lock(); }
  Locked<Shard> change(const Appender& writer, const OperationId& id) { return change_at(writer, number_of(id)); }
  Locked<Shard> change_at(const Appender& /*writer*/, std::size_t shard) { return cells_[shard].shard.lock(); }

  // Other bytes of the id than the slots use.
  static std::size_t number_of(const OperationId& id) { return id.bytes[SlotTable::tag_size] % shard_count; }

  // Answers a claim or a lookup that changes nothing, if its record is in memory.
  bool answer(Op& op, Time now);
  // Starts to bring the key into the processor's cache. Needs no shard's lock: only the writer changes the tables.
  void fetch(const Appender& /*writer*/, const OperationId& id) const {
    const Shard& shard = cells_[number_of(id)].shard.unlocked();
    shard.slots.fetch(id);
    shard.hot.fetch(id);
  }

  // The same as those of SlotTable, and counted in bytes().
  void insert(Shard& shard, const OperationId& id, ExpirySecond expires, Place place);
  void give_back_memory(Shard& shard);

  // Of the slots alone. Any thread may ask.
  std::uint64_t bytes() const { return bytes_.get(); }
  // Whether another key fits into its shard under max_memory.
  bool has_memory_for(const OperationId& id) const;
  // Enough of it to end being full.
  bool has_memory_again() const;

  struct Sizes {
    std::uint64_t keys = 0;
    std::uint64_t cache_bytes = 0;
  };
  Sizes sizes() const;

 private:
  struct alignas(64) Cell {
    Synchronized<Shard> shard;
  };

  const std::uint64_t limit_;
  Counter<std::uint64_t> bytes_;
  std::array<Cell, shard_count> cells_;
};

}  // namespace once::journal
