// Identifies the process that opened a guard. A forked child has a copy of the guard without its threads, so waiting
// for one of them would never end.
#pragma once

#include <unistd.h>

#include "base/layers.hpp"

namespace once::guard {

class OwnProcess {
 public:
  bool forked() const { return ::getpid() != opened_by_; }

 private:
  const pid_t opened_by_ = ::getpid();
};

}  // namespace once::guard
