// The side of a store that only one process can have open: a process that hands over closes it for its successor, and
// opens it again if the successor fails.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace once::store {

class Exclusive {
 public:
  // What was open. It is closed, and free for another process, when this ends.
  class Held {
   public:
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    virtual ~Held() = default;
  };

  // Another process may have it for `patience` longer: one that is ending, say.
  virtual Result<void> open(Duration patience) = 0;
  // Everything is refused from now on. A thread may still be inside answer_at_once() or part_of(): keep what is
  // returned until none can be any more.
  virtual std::unique_ptr<Held> give_up() = 0;
  virtual bool closed() const = 0;
  // It was given up, and is to be opened by somebody else or here again. False if that has failed.
  virtual bool handed_over() const = 0;

 protected:
  ~Exclusive() = default;
};

}  // namespace once::store
