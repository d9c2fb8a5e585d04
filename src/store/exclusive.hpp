// The interface of a store that only one process can open. During a handover the process closes it for its successor,
// and opens it again if the successor fails.
#pragma once

#include <memory>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace once::store {

class Exclusive {
 public:
  // The open store. Destroying this closes it, so that another process can open it.
  class Held {
   public:
    Held() = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    virtual ~Held() = default;
  };

  // Opens the store; waits up to `patience` for another process to close it.
  virtual Result<void> open(Duration patience) = 0;
  // Closes the store: every call fails from now on. Threads may still be in answer_at_once() or part_of(), so keep the
  // result until they have left.
  virtual std::unique_ptr<Held> give_up() = 0;
  virtual bool closed() const = 0;
  // Whether it was closed for a successor, and is open there or will be opened here again. False if that has failed.
  virtual bool handed_over() const = 0;

 protected:
  ~Exclusive() = default;
};

}  // namespace once::store
