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
  // No caller may be waiting.
  ~SearchThread();

  // More jobs than this are refused: their clients may have left long before it is their turn, and each may take
  // seconds.
  static constexpr std::size_t most_waiting = 32;

  // `refused`: too many jobs wait, or the thread was stopped.
  enum class Ran : std::uint8_t { refused, yes };
  // co_await thread.run(job, home): runs the job on the thread and resumes the caller at home; returns Ran.
  class Run;
  Run run(std::function<void()> job, Executor& home);

  // Stops the current job and starts no others; their callers get `refused`.
  void stop();

  using Counts = CountsByState;
  // The last complete count; nullopt until there is one.
  std::optional<Counts> counts() const;

 private:
  void work();
  // Counts a part; returns the pause before the next one.
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
  // Used by the thread only.
  Counts counting_{};
  std::string cursor_;
  bool count_failed_ = false;
  std::jthread thread_;  // declared last, because it uses all of the above
};

class [[nodiscard]] SearchThread::Run final : private Work {
 public:
  Run(SearchThread& thread, std::function<void()> job, Executor& home)
      : thread_(thread), job_(std::move(job)), home_(home) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller);
  Ran await_resume() const noexcept { return done_ ? Ran::yes : Ran::refused; }

 private:
  friend class SearchThread;

  SearchThread& thread_;
  std::function<void()> job_;
  Executor& home_;
  std::coroutine_handle<> caller_;
  bool done_ = false;
};

}  // namespace once::admin
