// Executes jobs on two threads. Their owners take turns; the jobs of one are executed oldest first.
#pragma once

#include <condition_variable>
#include <deque>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/offload.hpp"
#include "base/synchronized.hpp"

namespace once::base {

class OffloadThreads final : public Offload {
 public:
  OffloadThreads() = default;
  OffloadThreads(const OffloadThreads&) = delete;
  OffloadThreads& operator=(const OffloadThreads&) = delete;
  // Executes what is queued, then ends. Nothing may be added any more.
  ~OffloadThreads() override;

  // Thread-safe. The first job starts the threads.
  void add(OffloadJob& job) override;

 private:
  struct State {
    std::unordered_map<std::string, std::deque<OffloadJob*>> jobs;  // by owner; never empty
    std::deque<std::string> turns;                                  // of these owners, the next one first
    std::vector<std::thread> threads;
    bool ending = false;
  };

  static OffloadJob& take_next(State& state);
  void work();

  Synchronized<State> state_;
  std::condition_variable wake_;
};

}  // namespace once::base
