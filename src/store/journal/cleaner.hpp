// Deletes expired data, a little with each call: keys from the index, and segments from the disk, oldest first. The few
// records in the oldest segment that live longer are copied to the end of the log first ("carried forward").
//
// Lock: each call takes the writer's lock for short pieces of work, so that requests wait only briefly. The oldest
// segment is opened and read without it, because only the cleaner drops segments. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/synchronized.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/core.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/scan.hpp"

namespace once::journal {

// How long records that are no longer needed may take space when the journal is short of it: the time to find all
// expired keys and to carry all segments forward.
Duration reclaims_within(const JournalSettings& settings);

class Cleaner {
 public:
  explicit Cleaner(Core& core) : core_(core) {}

  // Removes expired keys from the index.
  void sweep();
  // Drops the oldest segments, or carries their live records forward.
  void clean(Time now);

 private:
  // Returns how many slots it visited.
  std::size_t sweep_some(Appender& appender, Shard& shard, std::size_t limit);
  void drop(Appender& appender, Shard& shard, SlotTable::Slot& slot);
  void drop_expired_chunks(Appender& appender, Shard& shard);
  void drop_chunks(Appender& appender, Shard& shard, const SlotTable::Tag& tag);

  // Less than this is left of journal.max_disk.
  bool has_less_than(std::uint64_t bytes, const Appender& appender) const;
  bool worth_carrying(const Appender& appender) const;
  bool start_carrying(const Segment& oldest);
  bool read_to_carry(const Segment& oldest);
  void damaged_oldest(SegmentNumber number);
  std::uint64_t carried_at_once() const;
  enum class Carried : std::uint8_t { no, yes };
  // Copies the live records in the next piece of the oldest segment to the end of the log, if that is possible now.
  Carried carry_some(Locked<Appender>& appender, Time now);
  struct MovedFrame {
    OperationId id;
    Place from;
    Place to;
    std::optional<std::uint32_t> chunk{};  // its number; nullopt: a record
  };
  using Moved = std::vector<MovedFrame>;
  // Adds records and chunks to a write and returns their new places. nullopt: the segment cannot be read.
  std::optional<Moved> gather_next(Appender& appender);
  Place carry(Appender& appender, const Frame& frame, Place from, Time at) const;
  // The frame's new place; nullopt: the frame is obsolete. Sets `held` if there is no space for it.
  std::optional<MovedFrame> gather_record(Appender& appender, const Frame& frame, Place place);
  std::optional<MovedFrame> gather_chunk(Appender& appender, const Frame& frame, Place place);
  void move(Appender& appender, const Moved& moved);
  void move_record(SegmentLog& segments, Shard& shard, const MovedFrame& moved);

  Core& core_;

  // The progress of carrying the oldest segment forward.
  struct Carry {
    std::unique_ptr<File> file;
    std::unique_ptr<SegmentScan> scan;
    bool held = false;  // the current frame was read, but there is no space for it yet
  };
  std::optional<Carry> carry_;
  bool cannot_clean_ = false;
  std::size_t sweep_shard_ = 0;
};

}  // namespace once::journal
