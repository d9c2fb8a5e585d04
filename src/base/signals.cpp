#include "base/signals.hpp"

#include <ctime>

namespace once::base {

namespace {

sigset_t pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

bool pipe_signal_pending() {
  sigset_t pending;
  sigemptyset(&pending);
  ::sigpending(&pending);
  return sigismember(&pending, SIGPIPE) == 1;
}

}  // namespace

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsBlocked::~SignalsBlocked() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

PipeSignalBlocked::PipeSignalBlocked() {
  const sigset_t set = pipe_signal();
  ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  blocks_ = sigismember(&before_, SIGPIPE) == 0 && !pipe_signal_pending();
}

PipeSignalBlocked::~PipeSignalBlocked() {
  if (blocks_ && pipe_signal_pending()) {
    const sigset_t set = pipe_signal();
    const timespec at_once{};
    ::sigtimedwait(&set, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace once::base
