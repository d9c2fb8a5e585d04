// Whether the journal can still be written. A limit or a full disk refuses new keys until there is room again. After
// any other error nothing is known of what is on disk, so everything is refused until a restart reads what is there.
//
// Lock: the writer's; an Appender has it. What other threads need is in Counters::condition.
#pragma once

#include <string>
#include <utility>

#include "base/log.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/stats.hpp"

namespace once::journal {

class Health {
 public:
  Health(const Log& log, Counters& counters) : log_(log), counters_(counters) {}

  bool has_failed() const { return !failure_.empty(); }
  const std::string& failure() const { return failure_; }

  void fail(const DiskError& error);
  void set_full(const DiskError& error);
  // There is room again.
  void set_well();
  void no_room_or_fail(const DiskError& error);
  // Nothing more is written; the caller says why to whoever needs to know.
  void refuse(std::string why) { failure_ = std::move(why); }

 private:
  const Log& log_;
  Counters& counters_;
  std::string failure_;  // not empty: nothing more is done
};

}  // namespace once::journal
