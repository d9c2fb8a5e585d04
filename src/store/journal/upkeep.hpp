// What the journal does beside requests, but for cleaning: the clock is looked at, the next segment is made, old
// segments end, the interval's sync, and whether a journal that was full has room again. Each call does a little.
//
// Lock: each call takes the writer's lock for a moment. Making a segment and the interval's sync take long, and are
// done without it; the Appender knows that they go on. For one thread.
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
