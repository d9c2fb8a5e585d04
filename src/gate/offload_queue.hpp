// Runs jobs that block for longer than a store call, on a thread that is started on first use.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/layers.hpp"

namespace once::gate {

class OffloadQueue {
 public:
  // A job; it should check `stop` regularly.
  using Job = std::move_only_function<void(const std::stop_token& stop)>;

  // Jobs run one after the other.
  void run(Job job) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(job));
    changed_.notify_one();
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  }
  // Waits for the running job; drops the others.
  void stop() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
    waiting_.clear();
  }

 private:
  void loop(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      if (stop.stop_requested()) return;
      Job job = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      job(stop);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> waiting_;
  std::jthread thread_;
};

}  // namespace once::gate
