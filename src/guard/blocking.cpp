#include "guard/blocking.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/task.hpp"

namespace once::guard {

namespace {

// The executor of a thread that has one thing to do: wait for one op.
class Waiting final : public Executor {
 public:
  void post(Work& work) override {
    // The lane asks its caller to wake it when there is nothing else to do, and there is nothing else.
    if (std::this_thread::get_id() == thread_) return work.run(work);
    const std::scoped_lock lock(mutex_);
    ready_ = &work;
    posted_.notify_one();  // with the mutex held: once it is free, this may be gone
  }
  void arm(Timer& /*timer*/, Duration /*after*/) override { ONCE_ASSERT(false); }
  void disarm(Timer& /*timer*/) override { ONCE_ASSERT(false); }

  void done() { done_ = true; }
  void run_until_done() {
    while (!done_) {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return ready_ != nullptr; });
      Work* const work = std::exchange(ready_, nullptr);
      lock.unlock();
      work->run(*work);
    }
  }

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable posted_;
  Work* ready_ = nullptr;
  bool done_ = false;  // this thread's own
};

Task<void> await(Lanes& lanes, Op& op, Waiting& home) {
  co_await lanes.run(op, home);
  home.done();
}

}  // namespace

void run_blocking(Lanes& lanes, Op& op) {
  Waiting home;
  spawn(await(lanes, op, home));
  home.run_until_done();
}

}  // namespace once::guard
