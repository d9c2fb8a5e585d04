// Applies DeletionTime to the clock while the journal is open, and logs when deletions are suspended.
//
// Lock: the writer's; an Appender has it.
#pragma once

#include "base/clock.hpp"
#include "base/log.hpp"
#include "store/journal/deletion_time.hpp"
#include "store/journal/stats.hpp"

namespace once::journal {

class DeletionClock {
 public:
  DeletionClock(const Log& log, Counters& counters) : log_(log), counters_(counters) {}

  // `newest` is the time of the newest entry in the journal, Time::min() if it is empty; `running` is Clock::running().
  void start(Time newest, Time now, Duration running);
  void look(Time now, Duration running);

  // The time by which expired records are deleted. Marks contain it, so that a restart does not trust a wrong clock
  // either.
  Time deletes_by() const { return deletes_by_; }

 private:
  const Log& log_;
  Counters& counters_;
  DeletionTime time_{Time(), Duration()};
  Time deletes_by_;
};

}  // namespace once::journal
