// The journal's background work except cleaning: checks the clock, creates the next segment, ends old segments, syncs
// for journal.sync: interval, and checks whether a full journal has space again. Each call does a little.
//
// Lock: each call takes the writer's lock for a moment. Creating a segment and the interval's sync are slow and done
// without it; the Appender knows that they are in progress. For one thread.
#pragma once

#include "base/clock.hpp"
#include "store/journal/core.hpp"

namespace once::journal {

class Upkeep {
 public:
  explicit Upkeep(Core& core) : core_(core) {}

  void look_at_clock(Time now);
  void prepare_spare();
  void end_old_segment(Time now);
  void count_segments_anew();
  void look_for_room(Time now);
  void sync_interval(Time now);
  void mark_when_idle(Time now);

 private:
  Core& core_;
  Time room_looked_for_at_;
};

}  // namespace once::journal
