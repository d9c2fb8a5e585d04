// Signals belong to the program, and Once may be a library inside of it: its threads take none, and its writes to a
// connection that is gone raise none.
#pragma once

#include <signal.h>

#include "base/layers.hpp"

namespace once::base {

// Around the start of a thread, which inherits it: no signal of the program is handled on a thread of ours.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Around calls of a library whose writes may raise SIGPIPE: the calling thread does not see it.
class PipeSignalBlocked {
 public:
  PipeSignalBlocked();
  ~PipeSignalBlocked();
  PipeSignalBlocked(const PipeSignalBlocked&) = delete;
  PipeSignalBlocked& operator=(const PipeSignalBlocked&) = delete;

 private:
  sigset_t before_{};
  bool blocks_ = false;  // it was neither blocked nor pending
};

}  // namespace once::base
