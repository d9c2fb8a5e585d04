// The segments as one log: appends at the end, drops at the beginning, and tells FrameReader where to read. It knows
// files, not records.
//
// Lock: the writer's; it is part of the Appender. make_spare() needs none.
//
// The next segment is created in advance as next.segment and filled with zeros: overwriting existing blocks takes half
// the time of allocating new ones, and a full disk is noticed here and not in the middle of a batch. When the segment
// is needed, it gets a header with the end of the previous one, and its name. After a restart, existing files are not
// appended to.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/format.hpp"
#include "store/journal/frame_reader.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

struct LogLimits {
  std::uint64_t segment_bytes = std::uint64_t{64} << 20U;
  std::uint64_t max_disk = std::uint64_t{10} << 30U;
};

// What a new segment is for. Carrying forward frees more space than it needs, so it may continue when new keys are
// refused. A start needs a segment regardless of the limit.
enum class Need : std::uint8_t { keys, carrying, start };

struct Segment {
  SegmentNumber number{};
  std::uint32_t salt = 0;
  std::uint64_t end = header_size;
  std::uint64_t live_bytes = 0;   // of live records, by Place::about_size()
  std::uint64_t live = 0;         // their number
  std::uint64_t chunk_bytes = 0;  // the same for live chunks
  std::uint64_t chunks = 0;
  Time created_at;
  Time expires_by = Time::min();  // everything in it has expired by then; what is live after that are tombstones

  std::uint64_t all_live_bytes() const { return live_bytes + chunk_bytes; }
  bool is_needed() const { return live > 0 || chunks > 0; }
};

class SegmentLog {
 public:
  SegmentLog(Disk& disk, const LogLimits& limits) : disk_(disk), limits_(limits) {}

  // At the start: adds the segments that recovery read, oldest first; then comes the first roll().
  void add(const Segment& segment);

  // A file for the next segment. It is created without the lock, because that is slow and affects nothing else; adopt()
  // needs the lock.
  struct Spare {
    std::unique_ptr<File> file;
    std::uint64_t capacity = 0;
  };
  // The size for the next segment, at least `least`; 0 if the limit leaves no space for it.
  std::uint64_t spare_size(Need need, std::uint64_t least = 0) const;
  bool has_spare() const { return spare_.file != nullptr; }
  static DiskResult<Spare> make_spare(Disk& disk, std::uint64_t size);
  // Takes the result of make_spare().
  DiskResult<void> adopt(DiskResult<Spare> spare);
  // Creates and adopts a spare of at least this size at once.
  DiskResult<void> ensure_spare(Need need, std::uint64_t least = 0);
  std::uint64_t spare_capacity() const { return spare_.capacity; }
  // The last attempt to create a spare found no space on disk. ensure_spare() fails without trying until try_again().
  bool disk_is_full() const { return disk_is_full_; }
  void try_again() { disk_is_full_ = false; }

  // Ends the active segment and makes the spare the next one. What `fill` appends to the header is in the segment
  // before it gets its name.
  struct Beginning {
    JournalId journal;
    Fence last_fence{0};
    Time now;
    bool begins_run = false;
  };
  using Fill = std::function<void(const SegmentHeader& header, std::string& segment)>;
  DiskResult<void> roll(const Beginning& beginning, const Fill& fill = {});

  // Bytes that fit before a roll is needed.
  std::uint64_t room() const { return segments_.empty() ? 0 : active_capacity_ - std::min(active_capacity_, tail()); }
  std::uint64_t tail() const { return segments_.back().end; }
  std::uint32_t salt() const { return segments_.back().salt; }
  SegmentNumber active() const { return segments_.back().number; }
  Time active_since() const { return segments_.back().created_at; }
  bool active_is_empty() const { return tail() == header_size; }

  // Appends at the tail. On an error the tail does not move. If the disk is full, a partial write is removed, and
  // nothing more fits until the next roll.
  DiskResult<void> append(std::string_view frames);
  // Syncs everything that was appended.
  DiskResult<void> sync();
  // Notes that nothing more will be appended.
  DiskResult<void> note_end() { return disk_.leave_note(to_note({.segment = active(), .offset = tail()})); }
  std::uint64_t durable_up_to() const { return durable_up_to_; }
  // sync() in two steps, so that the file can be synced without the lock.
  struct Unsynced {
    std::shared_ptr<File> file;
    SegmentNumber segment{};
    std::uint64_t up_to = 0;
  };
  Unsynced unsynced() const { return {active_file_, active(), tail()}; }
  void synced(const Unsynced& done);

  Address address(Place place) const;
  // Where to read the record or chunk at this place without the lock. A file that is open stays open as long as the
  // result exists.
  Pinned pin(Place place) const;
  // Caches a file that a reader had to open, for the next reader.
  void keep_open(const Pinned& pinned);

  std::size_t count() const { return segments_.size(); }
  const Segment& oldest() const { return segments_.front(); }
  // Whether there is a segment besides the active one.
  bool has_sealed() const { return segments_.size() > 1; }
  void for_each_sealed(auto&& visit) const {
    for (std::size_t i = 0; i + 1 < segments_.size(); ++i) visit(segments_[i]);
  }
  Segment& segment(SegmentOrdinal ordinal) { return segments_[index_of(ordinal)]; }
  // The record at this place becomes live (1), or stops being live (-1).
  void count_live(Place place, int by);
  void count_chunk(Place place, int by);

  // The numbers of segments in places: the oldest at the start is 1.
  SegmentOrdinal ordinal(SegmentNumber number) const {
    return SegmentOrdinal{std::to_underlying(number) - before_first_};
  }
  // Moves the base to the oldest existing segment. Returns by how many segments: places must be adjusted.
  std::uint32_t count_anew();
  DiskResult<void> drop_oldest();

  // Whether more is on disk than new keys may use; the rest of the limit is for carrying forward.
  bool over_limit() const { return disk_bytes() > limit(Need::keys); }
  std::uint64_t disk_bytes() const { return sealed_bytes_ + active_capacity_ + spare_.capacity; }
  std::uint64_t sealed_bytes() const { return sealed_bytes_; }
  const LogLimits& limits() const { return limits_; }

 private:
  DiskResult<SegmentNumber> next_number() const;
  std::size_t index_of(SegmentOrdinal ordinal) const;
  DiskResult<void> begin_segment(const SegmentHeader& header, const std::string& bytes);
  DiskResult<void> extend_spare(std::uint64_t size);
  std::uint64_t limit(Need need) const;

  Disk& disk_;
  const LogLimits limits_;
  std::deque<Segment> segments_;    // without gaps; the last one is active once roll() was called
  std::uint32_t before_first_ = 0;  // the number before the segment whose ordinal is 1
  std::shared_ptr<File> active_file_;
  std::uint64_t active_capacity_ = 0;
  std::uint64_t durable_up_to_ = 0;  // in the active segment
  std::uint64_t sealed_bytes_ = 0;
  Spare spare_;
  bool disk_is_full_ = false;

  // Sealed segments that were read recently; the least recently used is first.
  struct Opened {
    SegmentNumber number{};
    std::shared_ptr<File> file;
  };
  std::deque<Opened> opened_;
};

}  // namespace once::journal
