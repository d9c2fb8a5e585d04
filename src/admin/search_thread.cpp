#include "admin/search_thread.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace once::admin {

namespace {

// Counting takes at most one hundredth of the thread's time.
constexpr int share_of_time = 100;

}  // namespace

SearchThread::SearchThread(Search* search, Duration count_every, const Log& log)
    : search_(search), count_every_(count_every), log_(log), thread_([this] { work(); }) {}

SearchThread::~SearchThread() {
  const std::scoped_lock lock(mutex_);
  ending_ = true;
  wake_.notify_all();
}

SearchThread::Run SearchThread::run(std::function<void()> job, Executor& home) {
  return {*this, std::move(job), home};
}

bool SearchThread::Run::await_suspend(std::coroutine_handle<> caller) {
  caller_ = caller;
  Work::run = [](Work& work) { static_cast<Run&>(work).caller_.resume(); };
  const std::scoped_lock lock(thread_.mutex_);
  if (thread_.stopped_ || thread_.jobs_.size() >= most_waiting) return false;
  thread_.jobs_.push_back(this);
  thread_.wake_.notify_one();
  return true;
}

void SearchThread::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
}

std::optional<SearchThread::Counts> SearchThread::counts() const {
  const std::scoped_lock lock(mutex_);
  return counts_;
}

void SearchThread::work() {
  auto next_count = monotonic_now();
  std::unique_lock lock(mutex_);
  while (true) {
    if (search_ == nullptr || count_every_ == Duration::zero()) {
      wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    } else {
      wake_.wait_for(lock, next_count - monotonic_now(), [this] { return ending_ || !jobs_.empty(); });
    }
    if (!jobs_.empty()) {
      Run& job = *jobs_.front();
      jobs_.pop_front();
      job.done_ = !stopped_;
      lock.unlock();
      if (job.done_) job.job_();
      job.home_.post(job);
      lock.lock();
      continue;
    }
    if (ending_) return;
    lock.unlock();
    const Duration pause = count_some();
    next_count = monotonic_now() + pause;
    lock.lock();
  }
}

Duration SearchThread::count_some() {
  const auto begun = monotonic_now();
  const auto part = search_->count(cursor_);
  const auto took = std::chrono::ceil<Duration>(monotonic_now() - begun);
  if (!part) {
    if (!std::exchange(count_failed_, true)) log_.warn("keys not counted", {{"error", part.error().detail}});
    cursor_.clear();
    counting_ = {};
    return count_every_;
  }
  for (std::size_t i = 0; i < counting_.size(); ++i) counting_[i] += part->by_state[i];
  cursor_ = part->next;
  if (!cursor_.empty()) return took * (share_of_time - 1);
  count_failed_ = false;
  const std::scoped_lock lock(mutex_);
  counts_ = std::exchange(counting_, {});
  return count_every_;
}

}  // namespace once::admin
