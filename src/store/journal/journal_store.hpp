// The journal: the embedded store. Every change is appended to a log and is on disk before the caller is told; an index
// in memory says where the newest record of each key is. Records are written in time order and expire in nearly that
// order, so the oldest segment is dropped whole; the few records in it that live longer are carried forward first.
//
// What happens when something is wrong:
// - A limit is reached, or the disk is full: new keys are refused as `full`; nothing that is there is lost. Room for
// the
//   outcome of every claim that was given is kept free: without its body, if need be.
// - Records are read back without the mutex of those who write (journal_read.cpp), so a disk that is slow to read keeps
//   only those waiting who need what is on it.
// - A write or sync fails: nothing is known of what is on disk, so everything is refused until the process starts
//   again and reads what is there.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "store/journal/deletion_time.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/frame_reader.hpp"
#include "store/journal/past_runs.hpp"
#include "store/journal/scan.hpp"
#include "store/journal/segment_log.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/shard.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once {

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
  Duration clock_ahead{};       // of what is believed; nothing is deleted by it
};

class JournalStore final : public Store, public Search {
 public:
  // Reads what is in the folder, which nobody else may have open. A damaged journal is an error that says where.
  static Result<std::unique_ptr<JournalStore>> open(Disk& disk, const Clock& clock, Random& random, const Log& log,
                                                    const JournalSettings& settings);
  ~JournalStore() override;

  void execute(std::span<Op* const> batch) override;
  bool answer_at_once(Op& op) override;
  // 0, but others for what has to be read from the disk first.
  std::size_t part_of(const OperationId& id) const override;
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::no}; }
  bool failed_for_good() const override {
    return condition_.load(std::memory_order_relaxed) == JournalStats::Condition::failed;
  }
  Search* search() override { return this; }

  // In journal_search.cpp.
  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

  // A little of everything that needs to be done beside requests: the next segment made, expired keys forgotten,
  // segments ended, dropped or carried forward, the interval's sync. To be called about ten times a second
  // (JournalKeeper does), by one thread.
  void maintain();

  JournalStats stats() const;

 private:
  struct Change {
    Op* op = nullptr;
    bool removes = false;
    Record record;
    journal::Place place;
  };

  JournalStore(Disk& disk, const Clock& clock, const Log& log, const JournalSettings& settings);

  // open(), in journal_open.cpp.
  Result<void> recover(Random& random);
  Result<void> begin(Random& random, const journal::Chain& chain, std::span<const std::string> doubtful);
  void compare_clock(Time newest);
  void append_again(std::span<const std::string> payloads, const journal::SegmentHeader& header, std::string& segment);
  void cut(const journal::SegmentFile& segment, std::uint64_t end);
  void forget_removed_and_count();

  // What an op needs of the disk: its record if that is not in memory, and its labels if nobody says them. Wanted under
  // writing_, read without it, in journal_read.cpp; and used under it again if the record is still where it was.
  struct Read {
    Op* op = nullptr;
    journal::Pinned from;
    std::optional<Record> record{};  // empty: see `error`
    bool needs_outcome = false;      // its head is not enough
    bool lacks_outcome = false;      // only its head was read
    std::string tenant{};
    std::string route{};
    std::string error{};
    bool tried() const { return record.has_value() || !error.empty(); }
  };
  struct Reads {
    std::vector<Read> done{};    // in the order of their ops
    std::vector<Read> wanted{};  // the same
    std::size_t next = 0;        // of those that are done
    // What was read for the op at this address; null: nothing was. To be asked in the order of the ops.
    Read* of(const Op& op, journal::Address address);
  };
  // What memory has of an operation, and where the rest is; no place: nothing else is needed.
  struct Indexed {
    const Record* record = nullptr;
    journal::Place place{};
  };
  Indexed look_up(const Op& op);
  void want(Op& op, journal::Place place, Reads& reads);
  void want_all(std::span<Op* const> ops, Reads& reads);
  void read(Read& read, std::string& buffer);
  bool read_head(Read& read, journal::FrameReader& reader) const;
  void read_all(Reads& reads);
  static bool takes_labels(const Op& op);
  // The payload of a put of this operation.
  static DiskResult<std::string_view> checked(const DiskResult<std::string_view>& payload, const OperationId& id);

  // execute(), under writing_.
  // In order, up to the first one that needs something to be read; returns that one and the rest.
  std::span<Op* const> execute_locked(std::span<Op* const> batch, Reads& reads, std::unique_lock<std::mutex>& lock);
  // The same; returns how many.
  std::size_t execute_some(std::span<Op* const> batch, Reads& reads, Time now);
  struct Wanted {
    std::uint64_t bytes = 0;
    std::uint64_t ops = 0;  // which may be claims
    journal::Need need = journal::Need::keys;
  };
  void make_room(const Wanted& wanted, std::unique_lock<std::mutex>& lock, Time now);
  // What there is of an operation.
  struct Found {
    const Record* record = nullptr;  // null: none, or a forgotten one; an expired one is a tombstone
    journal::Labels labels;          // those of the op, or else, if it writes the record again, of the record
  };
  void decide(Op& op, Reads& reads, Time now);
  void claim(Op& op, const Record* found, Time now);
  void renew_lease(Op& op, const Found& found, Time now);
  void finish_claim(Op& op, const Found& found, Time now);
  void release_claim(Op& op, const Found& found);
  void forget_record(Op& op, const Record* found, Time now);
  // Empty: it is wanted, or could not be read and the op is answered.
  std::optional<Found> load(Op& op, Reads& reads, Time now);
  std::uint64_t with_frames(std::uint64_t size) const;
  bool no_room_for(std::uint64_t frame) const;
  void put(Op& op, Record&& record, const journal::Labels& labels);
  void remove(Op& op, Fence fence);
  static std::uint64_t outcomes_of(std::uint64_t claims);
  std::uint64_t reserve(std::uint64_t claims) const;
  void commit(Time now);
  DiskResult<void> write_frames();
  void apply(Change& change);
  void count_live(journal::Place place, int by);

  // scan() and find(): what a slot stands for.
  struct Candidate {
    std::uint64_t bits = 0;  // the beginning of the id, by which a scan goes on
    std::array<std::uint8_t, journal::SlotTable::tag_size> tag{};
  };
  std::vector<Candidate> candidates(journal::Shard& shard, std::uint64_t from, std::uint64_t to,
                                    const KeyFilter& filter, Time now);
  // Where its record is.
  struct Located {
    journal::Pinned from;
    bool live = false;
  };
  std::optional<Located> locate(journal::Shard& shard, const Candidate& candidate);
  enum class Part : std::uint8_t { head, whole };
  DiskResult<journal::Head> read_part(journal::Pinned& from, std::string& buffer, Part part);
  Result<std::optional<KeyInfo>> read_info(journal::Shard& shard, const Candidate& candidate, std::string& buffer,
                                           Part part, Time now);

  // maintain(), in journal_maintain.cpp.
  void look_at_clock(Time now);
  void prepare_spare();
  void end_old_segment(Time now);
  void count_segments_anew();
  void sweep();
  // Returns how many slots it looked at.
  std::size_t sweep_some(journal::Shard& shard, std::size_t limit);
  void drop(journal::Shard& shard, journal::SlotTable::Slot& slot);
  void clean(Time now);
  bool worth_carrying() const;
  bool start_carrying(const journal::Segment& oldest);
  bool read_to_carry(const journal::Segment& oldest);
  void damaged_oldest(journal::SegmentNumber number);
  bool carry_some(std::unique_lock<std::mutex>& lock, Time now);
  using Moved = std::vector<std::pair<OperationId, journal::Place>>;
  std::optional<Moved> gather_next();
  State carry(const journal::Frame& frame, journal::Place from, Time at);
  std::uint64_t carried_at_once() const;
  void drop_what_is_empty();
  void sync_interval(Time now);
  void mark_when_idle(Time now);

  DiskResult<void> roll(Time now);
  void fail(const DiskError& error);
  void set_full(const DiskError& error);
  void no_room_or_fail(const DiskError& error);
  bool has_room() const;
  void look_for_room(Time now);
  void publish_sizes();

  journal::Shard& shard_of(const OperationId& id) { return shards_[journal::Shard::number_of(id, shards_.size())]; }
  const journal::Shard& shard_of(const OperationId& id) const {
    return shards_[journal::Shard::number_of(id, shards_.size())];
  }

  Disk& disk_;
  const Clock& clock_;
  const Log& log_;
  const JournalSettings settings_;
  const std::size_t shard_cache_bytes_;

  journal::PastRuns past_runs_;

  mutable std::mutex writing_;  // everything below but the shards and what is atomic
  journal::SegmentLog segments_;
  journal::JournalId journal_;
  std::uint64_t last_fence_ = 0;
  std::uint64_t live_claims_ = 0;  // of this process; those with a lease of their own are not counted
  Time opened_at_;
  journal::DeletionTime deletion_time_{Time(), Duration()};
  Time deletes_by_;  // what has expired by then goes; marks say it, so that a restart does not believe a clock either
  std::string failure_;  // not empty: nothing more is done
  std::uint64_t room_ = 0;
  std::string frames_;
  std::vector<Change> changes_;
  Record read_record_;
  Time last_write_;
  std::uint64_t marked_up_to_ = 0;  // where the last idle mark ended
  // By maintain(), without the mutex.
  bool making_spare_ = false;
  bool syncing_ = false;
  std::condition_variable background_;
  Time last_sync_;

  // Of maintain() alone: carrying the oldest segment forward, and where that has come to.
  struct Carry {
    std::unique_ptr<File> file;
    std::unique_ptr<journal::SegmentScan> scan;
    bool held = false;  // the scan's frame was read, and there was no room for it yet
  };
  std::optional<Carry> carry_;
  bool cannot_clean_ = false;

  std::array<journal::Shard, 64> shards_;
  std::size_t sweep_shard_ = 0;

  std::atomic<JournalStats::Condition> condition_{JournalStats::Condition::well};
  Time room_looked_for_at_;  // of maintain() alone
  struct Counters {
    std::atomic<std::uint64_t> bytes_written{0}, syncs{0}, refused{0}, bodies_dropped{0}, expired{0}, carried{0},
        segments_dropped{0}, read_back{0}, disk_bytes{0}, segments{0}, live_claims{0}, index_bytes{0};
    std::atomic<Duration> clock_ahead{};
  };
  Counters counters_;
};

}  // namespace once
