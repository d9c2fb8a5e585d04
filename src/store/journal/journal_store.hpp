// The journal: the embedded store. Every change is appended to a log and is on disk before the caller is told; an index
// in memory says where the newest record of each key is. Records are written in time order and expire in nearly that
// order, so the oldest segment is dropped whole; the few records in it that live longer are carried forward first.
//
// What happens when something is wrong:
// - A limit is reached, or the disk is full: new keys are refused as `full`; nothing that is there is lost. Room for
// the
//   outcome of every claim that was given is kept free: without its body, if need be.
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

  // execute(), under writing_.
  void execute_some(std::span<Op* const> batch, Time now);
  struct Wanted {
    std::uint64_t bytes = 0;
    std::uint64_t ops = 0;  // which may be claims
    journal::Need need = journal::Need::keys;
  };
  void make_room(const Wanted& wanted, std::unique_lock<std::mutex>& lock, Time now);
  void decide(Op& op, Time now);
  void claim(Op& op, Time now);
  void renew_lease(Op& op, Time now);
  void finish_claim(Op& op, Time now);
  void release_claim(Op& op, Time now);
  void forget_record(Op& op, Time now);
  // Null: no record, or a forgotten one; an expired one is a tombstone. False: it could not be read, and the op is
  // answered.
  bool load(Op& op, Time now, const Record*& found);
  std::uint64_t with_frames(std::uint64_t size) const;
  bool no_room_for(std::uint64_t frame) const;
  Time lease_after_restart(Time lease_until) const;
  void put(Op& op, Record&& record, const journal::Labels& labels);
  // Of the op, or else of the record that is there. Views of the op or of labels_buffer_.
  journal::Labels labels_for(const Op& op);
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
  enum class Part : std::uint8_t { head, whole };
  DiskResult<journal::SegmentLog::Head> read_part(journal::Place place, std::string& buffer, Part part);
  Result<std::optional<KeyInfo>> read_info(journal::Shard& shard, const Candidate& candidate, std::string& buffer,
                                           Part part, Time now);

  // maintain(), in journal_maintain.cpp.
  void look_at_clock(Time now);
  void prepare_spare();
  void end_old_segment(Time now);
  void sweep();
  // Returns how many slots it looked at.
  std::size_t sweep_some(journal::Shard& shard, std::size_t limit);
  void drop(journal::Shard& shard, journal::SlotTable::Slot& slot);
  void clean(Time now);
  bool worth_carrying() const;
  bool start_carrying();
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

  Disk& disk_;
  const Clock& clock_;
  const Log& log_;
  const JournalSettings settings_;
  const std::size_t shard_cache_bytes_;

  mutable std::mutex writing_;  // everything below but the shards and what is atomic
  journal::SegmentLog segments_;
  journal::JournalId journal_;
  std::uint64_t last_fence_ = 0;
  std::uint64_t live_claims_ = 0;  // of this process; those with a lease of their own are not counted
  Time opened_at_;
  journal::DeletionTime deletion_time_{Time(), Duration()};
  Time deletes_by_;  // what has expired by then goes; marks say it, so that a restart does not believe a clock either
  journal::Place first_own_place_;  // what stands before it was written before this process began
  std::string failure_;             // not empty: nothing more is done
  std::uint64_t room_ = 0;
  std::string frames_;
  std::vector<Change> changes_;
  std::string read_buffer_;
  std::string labels_buffer_;
  Record read_record_;
  Time last_write_;
  std::uint64_t marked_up_to_ = 0;  // where the last idle mark ended
  // By maintain(), without the mutex.
  bool making_spare_ = false;
  bool syncing_ = false;
  std::condition_variable background_;
  Time last_sync_;

  // Carrying the oldest segment forward: where it has come to.
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
