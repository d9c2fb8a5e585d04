#include "store/journal/deletion_clock.hpp"

#include "base/sometimes.hpp"

namespace once::journal {

namespace {

// Smaller jumps are not logged: after a restart, a night without requests looks like one.
constexpr Duration far_ahead = std::chrono::hours(24);

}  // namespace

void DeletionClock::start(Time newest, Time now, Duration running) {
  time_ = DeletionTime(newest == Time::min() ? now : newest, running);
  look(now, running);
  if (now + DeletionTime::tolerance < newest) {
    log_.warn("the clock is behind the journal's last time; records live longer by the difference",
              {{"seconds", std::chrono::floor<std::chrono::seconds>(newest - now).count()}});
  }
}

void DeletionClock::look(Time now, Duration running) {
  const bool waited = time_.waits();
  deletes_by_ = time_.at(now, running);
  const bool waits = time_.waits();
  const Duration ahead = waits ? now - deletes_by_ : Duration::zero();
  counters_.clock_ahead.set(ahead);
  sometimes<"journal: the clock is ahead, nothing is deleted">(waits);
  if (waits && !waited && ahead >= far_ahead) {
    log_.warn("the clock is ahead of the elapsed time; no records are deleted for now",
              {{"seconds", std::chrono::floor<std::chrono::seconds>(ahead).count()}});
  }
}

}  // namespace once::journal
