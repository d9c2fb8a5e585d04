// Leases that earlier processes wrote. While no process had the journal open, owners outside the process could not
// renew their claims, so each start extends those leases a little. A lease that ran out while a process was running has
// lapsed for good.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "store/journal/format.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

// One run of a process, from its start to its end.
struct Run {
  Address begin;  // where its own writes begin
  Time opened_at;
  Time last_mark = Time::min();  // the last time it wrote; Time::min(): unknown
};

// Immutable once the journal is open, so it is thread-safe.
class PastRuns {
 public:
  // Oldest first; `own` is where this process begins to write.
  void set(std::vector<Run> runs, Address own, Time opened_at) {
    runs_ = std::move(runs);
    own_ = own;
    opened_at_ = opened_at;
  }

  // The end of the lease of the record at this address.
  Time lease(Time written, Address at) const {
    if (written == Time::min()) return written;  // its owner was the process
    if (at >= own_) return written;
    const auto later = std::ranges::upper_bound(runs_, at, {}, &Run::begin);
    // A record before the first run was copied there, and the segments of the run that wrote it are gone.
    const bool copied = later == runs_.begin();
    auto run = copied ? later : later - 1;
    Time until = written;
    for (bool own = !copied; run != runs_.end(); ++run, own = false) {
      if (!own) until = std::max(until, run->opened_at + lease_after_restart);
      if (until <= run->last_mark) return until;
    }
    return std::max(until, opened_at_ + lease_after_restart);
  }

  bool is_past(Address at) const { return at < own_; }

 private:
  std::vector<Run> runs_;
  Address own_;
  Time opened_at_;
};

}  // namespace once::journal
