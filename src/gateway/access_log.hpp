// The access log of one worker. Lines are buffered and handed over together, so that a line costs neither a system call
// nor a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/line_writer.hpp"
#include "gateway/access_line.hpp"
#include "gateway/settings.hpp"

namespace once::gateway {

class AccessLog {
 public:
  // `loop` is the worker's; `worker` seeds the sampling differently for each worker.
  AccessLog(Executor& loop, LineWriter& writer, const Clock& clock, std::uint64_t worker);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // Whether to log the current request.
  bool draws(const AccessSettings& settings);
  void write(const AccessLine& line, std::string_view shadow);
  // Hands over the buffered lines.
  void flush();

 private:
  struct FlushTimer : Timer {
    AccessLog* log = nullptr;
  };

  Executor& loop_;
  LineWriter& writer_;
  const Clock& clock_;
  std::uint64_t random_;
  std::string lines_;
  std::size_t count_ = 0;
  FlushTimer timer_;
};

}  // namespace once::gateway
