// Whether the journal can be written. At a limit or on a full disk, new keys are refused until there is space again.
// After any other error the state on disk is unknown, so everything is refused until a restart reads it.
//
// Lock: the writer's; it is part of the Appender. Other threads read Counters::condition.
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
  // There is space again.
  void set_well();
  void no_room_or_fail(const DiskError& error);
  // Stops all writes. Reporting the reason is up to the caller.
  void refuse(std::string why) { failure_ = std::move(why); }

 private:
  const Log& log_;
  Counters& counters_;
  std::string failure_;  // if not empty, the journal has failed
};

}  // namespace once::journal
