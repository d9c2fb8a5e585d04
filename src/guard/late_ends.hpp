// What a call could not tell the store before it returned: tried on in the background, until the store has it or it
// makes no difference any more. One thread for all of them, started with the first one. What is left when the guard is
// closed lapses.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "store/store.hpp"

namespace once::guard {

class LateEnds {
 public:
  struct Patience {
    std::chrono::nanoseconds limit;  // after which it is left to lapse
    // A claim that may still be on its way to the store is not there to be released yet: for how long after the store
    // said so it is tried on.
    std::chrono::nanoseconds on_its_way{};
  };

  // `ended` is called after each one that the store has taken.
  LateEnds(Store& store, std::function<void()> ended) : store_(store), ended_(std::move(ended)) {}
  ~LateEnds();
  LateEnds(const LateEnds&) = delete;
  LateEnds& operator=(const LateEnds&) = delete;

  // Any thread. A finish or a release.
  void add(const Op& op, Patience patience);

 private:
  struct Late {
    Op op;
    Patience patience;
    std::chrono::nanoseconds since;
    std::chrono::nanoseconds due;
    std::chrono::nanoseconds pause;
    std::chrono::nanoseconds not_there{};  // since the store answered that it does not have the claim
  };

  void loop();
  std::vector<Late> take_due(std::chrono::nanoseconds now);
  void execute(std::vector<Late>& due);
  // Whether it is to be tried again, and when.
  bool goes_on(Late& late) const;

  Store& store_;
  const std::function<void()> ended_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Late> left_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::guard
