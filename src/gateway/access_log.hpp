// The access log of one worker. Lines are buffered and handed over together, so that a line costs neither a system call
// nor a lock.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/line_writer.hpp"
#include "gateway/access_line.hpp"

namespace once::gateway {

class AccessLog {
 public:
  // The loop is the worker's.
  AccessLog(Executor& loop, LineWriter& writer, const Clock& clock);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

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
  std::string lines_;
  std::size_t count_ = 0;
  FlushTimer timer_;
};

}  // namespace once::gateway
