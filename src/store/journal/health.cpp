#include "store/journal/health.hpp"

#include <fmt/format.h>

namespace once::journal {

void Health::fail(const DiskError& error) {
  if (has_failed()) return;
  failure_ = fmt::format("the journal has failed and needs a restart: {}", error.detail);
  counters_.condition.set(Condition::failed);
  log_.error("the journal has failed; keyed requests are refused until a restart", {{"error", error.detail}});
}

void Health::set_full(const DiskError& error) {
  if (!counters_.condition.replace(Condition::well, Condition::full)) return;
  log_.warn("the journal is full; new keys are refused", {{"reason", error.detail}});
}

void Health::set_well() {
  if (!counters_.condition.replace(Condition::full, Condition::well)) return;
  log_.info("the journal has room again");
}

void Health::no_room_or_fail(const DiskError& error) {
  if (error.fault == DiskFault::no_space) {
    set_full(error);
  } else {
    fail(error);
  }
}

}  // namespace once::journal
