// Executes at once, or holds what it is given until a test says so.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/offload.hpp"

namespace once::sim {

class HeldOffload final : public Offload {
 public:
  bool holds = false;
  std::size_t jobs = 0;

  void add(OffloadJob& job) override {
    ++jobs;
    if (holds) return held_.push_back(&job);
    job.execute();
    job.executed();
  }
  void go_on() {
    holds = false;
    for (OffloadJob* job : std::exchange(held_, {})) add(*job);
  }

 private:
  std::vector<OffloadJob*> held_;
};

}  // namespace once::sim
