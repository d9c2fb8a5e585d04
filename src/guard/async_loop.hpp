// The executor of asynchronous calls: one thread for all of them, started with the first one.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/executor.hpp"
#include "base/task.hpp"

namespace once::guard {

class AsyncLoop final : public Executor {
 public:
  AsyncLoop() = default;
  // Runs what is posted, then ends. No task may be in progress, and this must not be the loop's own thread.
  ~AsyncLoop() override;

  // Thread-safe: runs the task on the loop.
  void start(Task<void> task);
  void post(Work& work) override;

  // Only on the loop's own thread.
  void arm(Timer& timer, Duration after) override;
  void disarm(Timer& timer) override;
  bool is_own_thread() const { return own_thread_.load() == std::this_thread::get_id(); }

 private:
  using Nanoseconds = std::chrono::nanoseconds;

  void loop();
  Work* take_posted();
  void fire_due();

  std::mutex mutex_;
  std::condition_variable posted_;
  Work* first_ = nullptr;  // guarded by the mutex, like all members up to the thread
  Work* last_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;

  std::atomic<std::thread::id> own_thread_{};
  std::multimap<Nanoseconds, Timer*> timers_;  // used on the loop only
};

}  // namespace once::guard
