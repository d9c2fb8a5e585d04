// The end of the log. It collects the frames of one write and the resulting changes to the index, knows how much space
// a write may use, and writes with one sync. Batches, the cleaner, the upkeep and recovery append through it.
//
// Lock: always the writer's. Core has the only Appender behind that lock, so a reference to it or its members proves
// that the lock is held. make_room() takes the lock as an argument, because it releases it while it waits.
//
// Space: the outcome of every live claim must fit, if necessary without its body. That much space stays free in the
// active segment or in a spare one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/synchronized.hpp"
#include "store/journal/deletion_clock.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/format.hpp"
#include "store/journal/health.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment_log.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/stats.hpp"
#include "store/store.hpp"

namespace once::journal {

class Appender {
 public:
  Appender(Disk& disk, const Log& log, const JournalSettings& settings, Counters& counters);

  SegmentLog& segments() { return segments_; }
  const SegmentLog& segments() const { return segments_; }
  Health& health() { return health_; }
  bool has_failed() const { return health_.has_failed(); }
  DeletionClock& deletion_clock() { return deletion_clock_; }
  Time deletes_by() const { return deletion_clock_.deletes_by(); }

  // Called by recovery: sets the journal's id and the last fence that was used; then begins this process's first
  // segment.
  void start(const JournalId& journal, Fence last_fence);
  DiskResult<void> begin_run(Time now, const SegmentLog::Fill& fill);
  // Syncs and marks the end of the log, so that a start has nothing to repair there. The last call.
  void close();

  // One write: begin_write(), then frames, each after a check of the free space, then write() or write_changes().
  void begin_write();
  // A change of the index, made once the write is on disk.
  struct Change {
    Op* op = nullptr;
    Kind kind = Kind::put;
    Record record;  // for a chunk: the record it belongs to, which does not change
    Place place;
  };
  // Omits the labels if there is no space for them. `chunks` is the number of chunks of a record whose body is in them.
  void put(Op& op, Record&& record, const Labels& labels, std::uint32_t chunks = 0);
  void remove(Op& op, Fence fence);
  void add_chunk(Op& op, const Record& record);
  std::span<Change> changes() { return changes_; }
  // For the cleaner, which only moves records. Returns the record's new place.
  Place copy(const Frame& frame);
  Place copy_changed(const OperationId& id, const Record& record, const Labels& labels);
  // Errors are recorded in health().
  DiskResult<void> write_changes(Time now);
  DiskResult<void> write();

  struct Wanted {
    std::uint64_t bytes = 0;
    std::uint64_t ops = 0;  // any of them may be a claim
    Need need = Need::keys;
  };
  // Before a write: begins a new segment if necessary, and finds out how much may be written. Waits while the upkeep
  // creates a segment or syncs, if the write depends on that.
  static void make_room(Locked<Appender>& appender, const Wanted& wanted, Time now);
  // Whether one more frame fits into this write. The outcomes of live claims and of the write's own changes must still
  // fit, and also `beside`: the outcomes of more claims, or bytes.
  struct Beside {
    std::uint64_t claims = 0;
    std::uint64_t bytes = 0;
  };
  bool has_room_for(std::uint64_t frame, const Beside& beside = {.claims = 0, .bytes = 0}) const;
  // For a whole write without claims.
  bool has_room_to_write(std::uint64_t bytes) const { return room_ >= bytes + reserve(live_claims_); }
  // Whether there is enough space on disk again to accept new keys.
  bool has_room_again() const;
  DiskResult<void> roll(Time now);

  // Counts claims of this process, except those with a lease.
  void claim_begins() { ++live_claims_; }
  void claim_ends() { --live_claims_; }
  Fence next_fence() { return Fence{++last_fence_}; }

  enum class Dropped : std::uint8_t { none, some };
  // Drops segments, oldest first, as long as the oldest has no live records.
  Dropped drop_empty_segments();

  // The upkeep calls begin_ and end_ with the lock, and does the slow work in between without it. Returns the size of
  // the spare segment to create; 0: none is needed, or none can be created now.
  std::uint64_t begin_spare();
  void end_spare(DiskResult<SegmentLog::Spare> spare);
  // Empty: no sync is due.
  std::optional<SegmentLog::Unsynced> begin_sync(Time now);
  void end_sync(const SegmentLog::Unsynced& unsynced, const DiskResult<void>& synced);
  // The mark in the next write confirms that a write is complete. Without a next write, this adds a mark.
  void mark_when_idle(Time now);

  void publish_sizes();

 private:
  DiskResult<void> write_frames();
  void append_mark_to_frames();
  void begin_frame();
  Place place_from(std::uint64_t begin, State state, BodyKept kept = BodyKept::yes) const;
  std::uint64_t with_frames(std::uint64_t size) const;
  static std::uint64_t outcomes_of(std::uint64_t claims);
  std::uint64_t reserve(std::uint64_t claims) const;

  const JournalSettings& settings_;
  Counters& counters_;
  SegmentLog segments_;
  Health health_;
  DeletionClock deletion_clock_;

  JournalId journal_;
  std::uint64_t last_fence_ = 0;
  std::uint64_t live_claims_ = 0;

  // The current write; kept to avoid allocations.
  std::string frames_;
  std::vector<Change> changes_;
  std::uint64_t room_ = 0;

  Time last_write_;
  std::uint64_t marked_up_to_ = 0;  // the end of the last idle mark
  Time last_sync_;
  // What the upkeep is doing without the lock.
  bool making_spare_ = false;
  bool syncing_ = false;
  std::condition_variable background_;  // notified when making_spare_ or syncing_ ends
};

}  // namespace once::journal
