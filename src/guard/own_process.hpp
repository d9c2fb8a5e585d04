// The process that opened a guard. A child that was forked from it has a copy of the guard without its threads:
// whatever waits for one of them would wait for ever.
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
