// Passes log lines to the host program: what the log writes to the pipe is read on the gate's loop, line by line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "http/loop.hpp"

namespace once::gate {

class LogPipe final : private http::Pollable {
 public:
  // Called on the loop, with a line without newline.
  using Sink = std::function<void(std::string_view line)>;

  explicit LogPipe(Sink sink);
  LogPipe(const LogPipe&) = delete;
  LogPipe& operator=(const LogPipe&) = delete;

  // The descriptor for a Log, which must not outlive this: writing to a pipe without a reader raises a signal.
  int writer() const { return writer_.get(); }
  // Fails if the loop cannot watch another descriptor.
  bool listen(http::Loop& loop);
  void stop_listening(http::Loop& loop) { loop.forget(reader_.get(), *this); }
  // Passes on everything written so far.
  void read_all();

 private:
  void on_ready(std::uint32_t events) override;

  Sink sink_;
  Descriptor reader_;
  Descriptor writer_;
  std::string rest_;  // an incomplete line
};

}  // namespace once::gate
