// A thread of the admin interface for blocking scans of the store. Neither requests nor the admin's event loop wait for
// it. Between jobs it counts the keys in each state from time to time, for at most a hundredth of the time, so that a
// store with millions of keys is not kept busy by a gauge.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/executor.hpp"
#include "base/log.hpp"
#include "store/search.hpp"

namespace once::admin {

class SearchThread {
 public:
  // Nothing is counted if `search` is null or `count_every` is 0.
  SearchThread(Search* search, Duration count_every, const Log& log);
  SearchThread(const SearchThread&) = delete;
  SearchThread& operator=(const SearchThread&) = delete;
  // Nobody waits.
  ~SearchThread();

  // More jobs than this do not wait: whoever asked for them may have left long before their turn comes, and each may
  // take seconds.
  static constexpr std::size_t most_waiting = 32;

  // co_await thread.run(job, home): the job runs on the thread, the caller goes on at home. False: it did not, there is
  // too much to do or this has stopped.
  class Run;
  Run run(std::function<void()> job, Executor& home);

  // Ends what it is at, and begins nothing more: who waits is told so.
  void stop();

  using Counts = CountsByState;
  // Of the last whole count; nothing until there was one.
  std::optional<Counts> counts() const;

 private:
  void work();
  // A part of a count; returns how long to leave the store alone.
  Duration count_some();

  Search* const search_;
  const Duration count_every_;
  const Log& log_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Run*> jobs_;
  bool stopped_ = false;
  bool ending_ = false;
  std::optional<Counts> counts_;
  // Of the thread alone.
  Counts counting_{};
  std::string cursor_;
  bool count_failed_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

class [[nodiscard]] SearchThread::Run final : private Work {
 public:
  Run(SearchThread& thread, std::function<void()> job, Executor& home)
      : thread_(thread), job_(std::move(job)), home_(home) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller);
  bool await_resume() const noexcept { return done_; }

 private:
  friend class SearchThread;

  SearchThread& thread_;
  std::function<void()> job_;
  Executor& home_;
  std::coroutine_handle<> caller_;
  bool done_ = false;
};

}  // namespace once::admin
