// What blocks for longer than a store call, on a thread of its own that is made when it is first needed.
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

class Errands {
 public:
  // Asked now and then whether it should end.
  using Errand = std::move_only_function<void(const std::stop_token& stop)>;

  // One after the other.
  void run(Errand errand) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(std::move(errand));
    changed_.notify_one();
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  }
  // Waits for the one that is running; the others are dropped.
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
      Errand errand = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      errand(stop);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Errand> waiting_;
  std::jthread thread_;
};

}  // namespace once::gate
