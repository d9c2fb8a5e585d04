// What the parts of an open journal share, and which lock each part needs.
//
//   the writer's lock   Core::appender: the end of the log, its segments, room and health. Held for a write and
//                       its sync; not while records are read.
//   a shard's lock      Core::index, for a moment. A change needs the writer's lock too, taken first.
//   none                the rest, which is constant or atomic.
//
//   part           what it does                       lock
//   Recovery       segments into the index, at open   the writer's, all the time
//   BatchWriter    decides ops and writes batches     the writer's; not to read records
//   Batch          the ops of one write               lives under the writer's
//   RecordReader   reads records from segments        none
//   Cleaner        expired keys, old segments         the writer's, in short pieces
//   Upkeep         spares, age, interval syncs, room  the writer's, for a moment
//   JournalSearch  lists and counts for operators     a shard's; the writer's to find one
//
// Cleaner and Upkeep are for one thread, the one that calls JournalStore::maintain(); the others are for any.
#pragma once

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/synchronized.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/index.hpp"
#include "store/journal/past_runs.hpp"
#include "store/journal/settings.hpp"
#include "store/journal/stats.hpp"

namespace once::journal {

struct Core {
  Core(Disk& files, const Clock& time, const Log& lines, const JournalSettings& chosen)
      : disk(files),
        clock(time),
        log(lines),
        settings(chosen),
        index(settings),
        appender(files, lines, settings, counters) {}

  Disk& disk;
  const Clock& clock;
  const Log& log;
  const JournalSettings settings;
  PastRuns past_runs;  // set by recovery, constant afterwards
  Counters counters;
  Index index;
  Synchronized<Appender> appender;
};

}  // namespace once::journal
