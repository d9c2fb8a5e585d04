// Deletes what has expired, a little with each call: keys leave the index, and segments leave the disk from the oldest
// on. The few records in the oldest one that live longer are carried forward to the end of the log first.
//
// Lock: each call takes the writer's lock for pieces that are short enough for requests to wait for. The oldest segment
// is opened and read without it, because only the cleaner drops segments. For one thread.
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

class Cleaner {
 public:
  explicit Cleaner(Core& core) : core_(core) {}

  // Expired keys leave the index.
  void sweep();
  // The oldest segments are dropped or carried forward.
  void clean(Time now);

 private:
  // Returns how many slots it looked at.
  std::size_t sweep_some(Appender& appender, Shard& shard, std::size_t limit);
  void drop(Appender& appender, Shard& shard, SlotTable::Slot& slot);

  bool worth_carrying(const Appender& appender) const;
  bool start_carrying(const Segment& oldest);
  bool read_to_carry(const Segment& oldest);
  void damaged_oldest(SegmentNumber number);
  std::uint64_t carried_at_once() const;
  // Copies what counts in the next piece of the oldest segment to the end of the log. False: not now.
  bool carry_some(Locked<Appender>& appender, Time now);
  using Moved = std::vector<std::pair<OperationId, Place>>;
  // Into a write, with the places that they will have. Empty: the segment cannot be read.
  std::optional<Moved> gather_next(Appender& appender);
  Place carry(Appender& appender, const Frame& frame, Place from, Time at) const;
  void move(Appender& appender, const Moved& moved);

  Core& core_;

  // Carrying the oldest segment forward, and where that has come to.
  struct Carry {
    std::unique_ptr<File> file;
    std::unique_ptr<SegmentScan> scan;
    bool held = false;  // the scan's frame was read, and there was no room for it yet
  };
  std::optional<Carry> carry_;
  bool cannot_clean_ = false;
  std::size_t sweep_shard_ = 0;
};

}  // namespace once::journal
