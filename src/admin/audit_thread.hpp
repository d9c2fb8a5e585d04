// A thread for writing the audit file. The file may hang, for example on a file server that is down: a caller that
// waits gets an error after a while, other requests do not wait, and neither does shutdown.
#pragma once

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/executor.hpp"

namespace once::admin {

class AuditThread {
 public:
  // A job owns all that it uses: it may continue after its caller stopped waiting.
  using Job = std::function<Result<void>()>;

  explicit AuditThread(Duration limit) : limit_(limit) {}
  AuditThread(const AuditThread&) = delete;
  AuditThread& operator=(const AuditThread&) = delete;
  // No caller may be waiting. A hanging thread is left behind.
  ~AuditThread();

  // co_await thread.run(job, home): the job's result, or an error if it takes too long. A job that had begun may still
  // complete then.
  class Run;
  Run run(Job job, Executor& home);

 private:
  struct Entry : Work {
    Job job;
    Run* waiter = nullptr;
    Result<void> result;
    bool ended = false;
    bool abandoned = false;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable wake;
    std::condition_variable idle;
    std::deque<std::shared_ptr<Entry>> entries;
    bool busy = false;
    bool ending = false;
  };

  static void work(State& state);
  void add(std::shared_ptr<Entry> entry);

  const Duration limit_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;  // started with the first job
};

class [[nodiscard]] AuditThread::Run final : private Timer {
 public:
  Run(AuditThread& thread, Job job, Executor& home);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller);
  Result<void> await_resume() { return std::move(entry_->result); }

 private:
  friend class AuditThread;

  void resume();
  void late();

  AuditThread& thread_;
  Executor& home_;
  std::shared_ptr<Entry> entry_ = std::make_shared<Entry>();
  std::coroutine_handle<> caller_;
};

}  // namespace once::admin
