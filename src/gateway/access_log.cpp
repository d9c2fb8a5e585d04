#include "gateway/access_log.hpp"

#include "base/log_line.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t most_gathered = std::size_t{32} << 10U;
constexpr Duration longest_gathering = std::chrono::milliseconds(100);

}  // namespace

AccessLog::AccessLog(Executor& loop, LineWriter& writer, const Clock& clock, std::uint64_t worker)
    : loop_(loop), writer_(writer), clock_(clock), random_(worker) {
  timer_.log = this;
  timer_.fire = [](Timer& timer) { static_cast<FlushTimer&>(timer).log->flush(); };
}

AccessLog::~AccessLog() {
  loop_.disarm(timer_);
}

// Draws at random, not every n-th request: periodic requests could always or never be sampled. A cheap generator is
// good enough (Knuth's MMIX).
bool AccessLog::draws(const AccessSettings& settings) {
  if (!settings.on || settings.sample <= 1) return settings.on;
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  return (random_ >> 33U) % settings.sample == 0;
}

void AccessLog::write(const AccessLine& line, std::string_view shadow) {
  lines_.append(line.text(writer_.format(), clock_.now(), shadow));
  ++count_;
  if (lines_.size() >= most_gathered) {
    flush();
  } else if (!timer_.armed()) {
    loop_.arm(timer_, longest_gathering);
  }
}

void AccessLog::flush() {
  loop_.disarm(timer_);
  writer_.hand_over(lines_, count_);
  count_ = 0;
}

}  // namespace once::gateway
