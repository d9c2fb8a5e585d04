#include "gateway/access_log.hpp"

#include "base/log_line.hpp"

namespace once::gateway {

namespace {

constexpr std::size_t most_gathered = std::size_t{32} << 10U;
constexpr Duration longest_gathering = std::chrono::milliseconds(100);

}  // namespace

AccessLog::AccessLog(Executor& loop, LineWriter& writer, const Clock& clock)
    : loop_(loop), writer_(writer), clock_(clock) {
  timer_.log = this;
  timer_.fire = [](Timer& timer) { static_cast<FlushTimer&>(timer).log->flush(); };
}

AccessLog::~AccessLog() {
  loop_.disarm(timer_);
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
