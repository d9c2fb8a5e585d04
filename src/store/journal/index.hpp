// The journal's index in memory: where every record is, in shards with a lock each.
//
// Locks: a lookup takes the lock of the key's shard for a moment and never waits for the disk. A change also needs the
// writer's lock, proven by a reference to the Appender, so the index is stable for the holder of that lock. The only
// exception is the LRU order, which answer() changes with the shard's lock alone. Lock order: the writer's, then one
// shard's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "base/synchronized.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/shard.hpp"
#include "store/journal/stats.hpp"
#include "store/store.hpp"

namespace once::journal {

class Appender;
class SegmentLog;

class Index {
 public:
  static constexpr std::size_t shard_count = 64;

  explicit Index(const JournalSettings& settings);

  Locked<const Shard> look(const OperationId& id) const { return look_at(number_of(id)); }
  Locked<const Shard> look_at(std::size_t shard) const { return cells_[shard].shard.lock(); }
  Locked<Shard> change(const Appender& writer, const OperationId& id) { return change_at(writer, number_of(id)); }
  Locked<Shard> change_at(const Appender& /*writer*/, std::size_t shard) { return cells_[shard].shard.lock(); }

  // Uses other bytes of the id than the slots do.
  static std::size_t number_of(const OperationId& id) { return id.bytes[SlotTable::tag_size] % shard_count; }

  // Answers a claim, lookup or read that changes nothing, if its record is in memory and a read finds no chunks.
  bool answer(Op& op, Time now);
  // Prefetches the key's slot. Needs no shard lock, because only the writer changes the tables.
  void fetch(const Appender& /*writer*/, const OperationId& id) const {
    const Shard& shard = cells_[number_of(id)].shard.unlocked();
    shard.slots.fetch(id);
    shard.hot.fetch(id);
  }

  // Change the slots like the functions of SlotTable, and keep bytes() up to date.
  void insert(Shard& shard, const OperationId& id, ExpirySecond expires, Place place);
  void give_back_memory(Shard& shard);

  // Adds the next chunk of this record.
  void add_chunk(SegmentLog& segments, Shard& shard, const OperationId& id, const Record& record, Place place);
  // Adds all chunks of this record, which has none yet.
  void add_chunks(SegmentLog& segments, Shard& shard, const OperationId& id, const Record& record,
                  std::vector<Place> places);
  std::uint32_t count_chunks(const OperationId& id, const Record& record) const {
    return static_cast<std::uint32_t>(look(id)->chunks.count(id, record));
  }
  // Whether the body of a record, which had this many chunks when it was written, is complete: it is not kept if some
  // are lost.
  bool has_body(const OperationId& id, const Record& record, std::uint32_t chunks) const {
    const bool in_chunks = record.state == State::succeeded && record.body_kept == BodyKept::in_chunks;
    return !in_chunks || count_chunks(id, record) >= chunks;
  }
  // The record has changed, or is gone if null: drops the chunks that no longer belong to it.
  void record_changed(SegmentLog& segments, Shard& shard, const OperationId& id, const Record* record) {
    if (!shard.chunks.empty()) keep_or_end_chunks(segments, shard, id, record);
  }
  void end_chunks(SegmentLog& segments, Shard& shard, const SlotTable::Tag& tag);

  // Memory of the slots. Thread-safe.
  std::uint64_t bytes() const { return bytes_.get(); }
  // Memory of the places of chunks. Thread-safe.
  std::uint64_t chunk_bytes() const { return chunk_bytes_.get(); }
  // Whether another key fits into its shard under max_memory.
  bool has_memory_for(const OperationId& id) const;
  bool has_memory_for_chunk(const OperationId& id) const;
  // Whether there is enough memory again to accept new keys.
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

  void keep_or_end_chunks(SegmentLog& segments, Shard& shard, const OperationId& id, const Record* record);

  const std::uint64_t limit_;
  Counter<std::uint64_t> bytes_;
  Counter<std::uint64_t> chunk_bytes_;
  std::array<Cell, shard_count> cells_;
};

}  // namespace once::journal
