// Signals belong to the program, which may use Once as a library: Once's threads handle no signals, and its writes to
// closed connections raise none.
#pragma once

#include <signal.h>

#include "base/layers.hpp"

namespace once::base {

// Blocks all signals on this thread while a thread is started, which inherits the mask: Once's threads never run the
// program's signal handlers.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Blocks SIGPIPE on the calling thread around library calls that write to sockets.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t before_{};
  bool blocks_ = false;  // SIGPIPE was neither blocked nor pending before
};

}  // namespace once::base
