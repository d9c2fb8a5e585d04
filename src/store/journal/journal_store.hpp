// The journal: the embedded store. Every change is appended to a log and is on disk before the caller is told; an index
// in memory says where the newest record of each key is. Records are written in time order and expire in nearly that
// order, so the oldest segment is dropped whole; the few records in it that live longer are carried forward first.
//
// What happens when something is wrong:
// - A limit is reached, or the disk is full: new keys are refused as `full`; nothing that is there is lost. Room for
//   the outcome of every claim that was given is kept free: without its body, if need be.
// - Records are read back without the writer's lock, so a disk that is slow to read keeps only those waiting who need
//   what is on it.
// - A write or sync fails: nothing is known of what is on disk, so everything is refused until the process starts
//   again and reads what is there.
//
// This class puts the parts together and has no state of its own. core.hpp lists them, and says which lock each needs.
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
  // Reads what is in the folder, which nobody else may have open. A damaged journal is an error that says where.
  static Result<std::unique_ptr<JournalStore>> open(Disk& disk, const Clock& clock, Random& random, const Log& log,
                                                    const JournalSettings& settings);
  ~JournalStore() override;

  void execute(std::span<Op* const> batch) override { writer_.execute(batch); }
  bool answer_at_once(Op& op) override;
  // 0, but others for what has to be read from the disk first.
  std::size_t part_of(const OperationId& id) const override;
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::no}; }
  bool failed_for_good() const override { return core_.counters.condition.get() == JournalStats::Condition::failed; }
  Search* search() override { return &search_; }

  // A little of everything that needs to be done beside requests: the next segment made, expired keys forgotten,
  // segments ended, dropped or carried forward, the interval's sync. To be called about ten times a second
  // (JournalKeeper does), by one thread.
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
