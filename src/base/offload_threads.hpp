// Executes jobs, oldest first, on two threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <thread>
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
    std::deque<OffloadJob*> jobs;
    std::vector<std::thread> threads;
    bool ending = false;
  };

  void work();

  Synchronized<State> state_;
  std::condition_variable wake_;
};

}  // namespace once::base
