// Leases that were written before this process began. While no process had the journal nobody could renew a claim that
// is held outside, so each start gives its owner a moment to say that it is still at work. One whose lease ran out
// while a process was there to renew it has lapsed, and stays so.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "store/journal/format.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

// From one start of a process to its end.
struct Run {
  Address begin;  // of what it wrote itself
  Time opened_at;
  Time last_mark = Time::min();  // when it was last seen; Time::min(): not known, as of those of earlier versions
};

// Does not change once the journal is open, so any thread may ask.
class PastRuns {
 public:
  // Oldest first; `own` is where this process begins to write.
  void set(std::vector<Run> runs, Address own, Time opened_at) {
    runs_ = std::move(runs);
    own_ = own;
    opened_at_ = opened_at;
  }

  // Until when the lease of the record that is there lasts.
  Time lease(Time written, Address at) const {
    if (written == Time::min()) return written;  // its owner was the process
    if (at >= own_) return written;
    const auto later = std::ranges::upper_bound(runs_, at, {}, &Run::begin);
    auto run = later == runs_.begin() ? later : later - 1;
    Time until = written;
    for (bool own = true; run != runs_.end(); ++run, own = false) {
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
