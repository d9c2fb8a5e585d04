// The journal: the embedded store. Every change is appended to a log and is on disk before the caller is answered. An
// index in memory has the place of the newest record of each key. Records are written in time order and expire in
// nearly that order, so the oldest segment is dropped as a whole; its few longer-lived records are copied to the end
// first.
//
// Failures:
// - A limit is reached or the disk is full: new keys are refused as `full`, and nothing is lost. Space is reserved for
//   the outcome of every granted claim, if necessary without its body.
// - Slow reads: records are read without the writer's lock, so a slow disk delays only the requests that need the data.
// - A write or sync fails: the state on disk is unknown, so everything is refused until a restart reads it.
//
// This class connects the parts and has no state of its own. core.hpp lists the parts and their locks.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "store/journal/batch_writer.hpp"
#include "store/journal/cleaner.hpp"
#include "store/journal/core.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/journal_search.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/stats.hpp"
#include "store/journal/upkeep.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::journal {

class JournalStore final : public Store {
 public:
  // Reads the journal in the folder, which no other process may have open. The error for a damaged journal says where.
  static Result<std::unique_ptr<JournalStore>> open(Disk& disk, const Clock& clock, Random& random, const Log& log,
                                                    const JournalSettings& settings);
  ~JournalStore() override;

  void execute(std::span<Op* const> batch) override { writer_.execute(batch); }
  bool answer_at_once(Op& op) override;
  // 0, or another part for an op that must read from disk first.
  std::size_t part_of(const OperationId& id) const override;
  Traits traits() const override {
    return {.durable = Durable::yes, .shared = Shared::no, .reclaims_within = reclaims_within(core_.settings)};
  }
  bool failed_for_good() const override { return core_.counters.condition.get() == JournalStats::Condition::failed; }
  Search* search() override { return &search_; }

  // Does a little background work: creates the next segment, removes expired keys, ends, drops or cleans segments, and
  // syncs for journal.sync: interval. Called about ten times a second by one thread (JournalKeeper).
  void maintain();

  JournalStats stats() const;

 private:
  JournalStore(Disk& disk, const Clock& clock, const Log& log, const JournalSettings& settings);

  Core core_;
  BatchWriter writer_{core_};
  JournalSearch search_{core_};
  Cleaner cleaner_{core_};
  Upkeep upkeep_{core_};
};

}  // namespace once::journal
