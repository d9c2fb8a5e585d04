// Lets other threads run jobs on the gate's loop, in order.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "base/executor.hpp"

namespace once::gate {

class Mailbox final : private Work {
 public:
  using Job = std::move_only_function<void()>;

  Mailbox() {
    run = [](Work& work) { static_cast<Mailbox&>(work).run_all(); };
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Runs jobs there until close().
  void open(Executor& home) {
    const std::scoped_lock lock(mutex_);
    home_ = &home;
  }
  // Call on the home's thread, or when it has ended. Jobs that have not run are dropped.
  void close() {
    std::vector<Job> left;
    const std::scoped_lock lock(mutex_);
    home_ = nullptr;
    left.swap(jobs_);
  }
  enum class Posted : std::uint8_t { no, yes };
  // Thread-safe. Drops the job if the mailbox is closed.
  Posted post(Job job) {
    const std::scoped_lock lock(mutex_);
    if (home_ == nullptr) return Posted::no;
    jobs_.push_back(std::move(job));
    if (!std::exchange(posted_, true)) home_->post(*this);
    return Posted::yes;
  }

 private:
  void run_all() {
    std::vector<Job> jobs;
    {
      const std::scoped_lock lock(mutex_);
      posted_ = false;
      jobs.swap(jobs_);
    }
    for (Job& job : jobs) job();
  }

  std::mutex mutex_;
  Executor* home_ = nullptr;
  std::vector<Job> jobs_;
  bool posted_ = false;
};

}  // namespace once::gate
