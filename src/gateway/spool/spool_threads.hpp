// Executes the jobs of the spool, oldest first, on threads that are allowed to block.
#pragma once

#include <condition_variable>
#include <deque>
#include <thread>
#include <vector>

#include "base/synchronized.hpp"
#include "gateway/spool/spool.hpp"

namespace once::gateway {

class SpoolThreads final : public SpoolRunner {
 public:
  SpoolThreads() = default;
  SpoolThreads(const SpoolThreads&) = delete;
  SpoolThreads& operator=(const SpoolThreads&) = delete;
  // Executes what was added. Nothing is added any more.
  ~SpoolThreads() override;

  // From any thread. The first job starts the threads.
  void add(SpoolJob& job) override;

 private:
  struct State {
    std::deque<SpoolJob*> jobs;
    std::vector<std::thread> threads;
    bool ending = false;
  };

  void work();

  Synchronized<State> state_;
  std::condition_variable wake_;
};

}  // namespace once::gateway
