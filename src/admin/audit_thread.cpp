#include "admin/audit_thread.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace once::admin {

namespace {

constexpr std::chrono::seconds patience_at_the_end{1};

}  // namespace

AuditThread::~AuditThread() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->wake.notify_all();
  const bool idle = state_->idle.wait_for(lock, patience_at_the_end, [this] { return !state_->busy; });
  lock.unlock();
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

AuditThread::Run AuditThread::run(Job job, Executor& home) {
  return {*this, std::move(job), home};
}

void AuditThread::add(std::shared_ptr<Entry> entry) {
  const std::scoped_lock lock(state_->mutex);
  state_->entries.push_back(std::move(entry));
  state_->wake.notify_one();
  if (!thread_.joinable()) {
    thread_ = std::thread([state = state_] { work(*state); });
  }
}

void AuditThread::work(State& state) {
  std::unique_lock lock(state.mutex);
  while (true) {
    state.wake.wait(lock, [&] { return state.ending || !state.entries.empty(); });
    if (state.ending) return;
    const std::shared_ptr<Entry> entry = std::move(state.entries.front());
    state.entries.pop_front();
    state.busy = true;
    lock.unlock();
    Result<void> result = entry->job();
    lock.lock();
    state.busy = false;
    state.idle.notify_all();
    if (entry->abandoned) continue;
    entry->result = std::move(result);
    entry->ended = true;
    // The waiter has not been resumed, so it and its executor still exist.
    entry->waiter->home_.post(*entry);
  }
}

AuditThread::Run::Run(AuditThread& thread, Job job, Executor& home) : thread_(thread), home_(home) {
  entry_->job = std::move(job);
  entry_->waiter = this;
  entry_->Work::run = [](Work& work) { static_cast<Entry&>(work).waiter->resume(); };
  fire = [](Timer& timer) { static_cast<Run&>(timer).late(); };
}

void AuditThread::Run::await_suspend(std::coroutine_handle<> caller) {
  caller_ = caller;
  home_.arm(*this, thread_.limit_);
  thread_.add(entry_);
}

void AuditThread::Run::resume() {
  if (armed()) home_.disarm(*this);
  caller_.resume();
}

void AuditThread::Run::late() {
  {
    const std::scoped_lock lock(thread_.state_->mutex);
    if (entry_->ended) return;  // resume() follows
    entry_->abandoned = true;
    std::erase(thread_.state_->entries, entry_);
    entry_->result = std::unexpected(
        Error{.source = ErrorSource::system,
              .retryable = Retryable::yes,
              .detail = fmt::format("the audit log cannot be written: no progress for {} ms", thread_.limit_.count())});
  }
  caller_.resume();
}

}  // namespace once::admin
