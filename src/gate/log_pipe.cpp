#include "gate/log_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace once::gate {

LogPipe::LogPipe(Sink sink) : sink_(std::move(sink)) {
  std::array<int, 2> ends{};
  // Without a pipe the log is discarded, which is better than failing to open the gate.
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return;
  reader_ = Descriptor(ends[0]);
  writer_ = Descriptor(ends[1]);
}

bool LogPipe::listen(http::Loop& loop) {
  return reader_.open() && loop.add(reader_.get(), *this);
}

void LogPipe::on_ready(std::uint32_t /*events*/) {
  read_all();
}

void LogPipe::read_all() {
  std::array<char, 4096> bytes{};
  ssize_t count = ::read(reader_.get(), bytes.data(), bytes.size());
  while (count > 0) {
    rest_.append(bytes.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
      sink_(std::string_view(rest_).substr(begin, end - begin));
      begin = end + 1;
    }
    rest_.erase(0, begin);
    count = ::read(reader_.get(), bytes.data(), bytes.size());
  }
}

}  // namespace once::gate
