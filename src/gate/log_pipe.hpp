// Log lines for the program around the gate: what the log writes comes out again on the gate's loop, line by line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "http/loop.hpp"

namespace once::gate {

class LogPipe final : private http::Pollable {
 public:
  // Called on the loop. The line has no newline.
  using Sink = std::function<void(std::string_view line)>;

  explicit LogPipe(Sink sink);
  LogPipe(const LogPipe&) = delete;
  LogPipe& operator=(const LogPipe&) = delete;

  // What a Log writes to. It must not outlive this: writing to a pipe that nobody reads raises a signal.
  int writer() const { return writer_.get(); }
  // False: the loop cannot watch it.
  bool listen(http::Loop& loop);
  void stop_listening(http::Loop& loop) { loop.forget(reader_.get(), *this); }
  // Hands over what is there now.
  void read_all();

 private:
  void on_ready(std::uint32_t events) override;

  Sink sink_;
  Descriptor reader_;
  Descriptor writer_;
  std::string rest_;  // of a line that is not whole yet
};

}  // namespace once::gate
