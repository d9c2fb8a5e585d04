// Runs work outside the event loop, because it blocks or takes so long that other connections would notice. The caller
// awaits the result. The threads are a port.
#pragma once

#include <coroutine>
#include <optional>
#include <string_view>
#include <utility>

#include "base/executor.hpp"

namespace once::base {

class OffloadJob {
 public:
  virtual void execute() = 0;   // may block
  virtual void executed() = 0;  // right after it, on the same thread; the job may be gone afterwards
  // The owner of the job: many jobs of one owner do not delay those of others. A view of data that outlives the job.
  std::string_view owner() const { return owner_; }

 protected:
  explicit OffloadJob(std::string_view owner = {}) : owner_(owner) {}
  ~OffloadJob() = default;

 private:
  std::string_view owner_;
};

// Where jobs are executed. Every job that is added is executed.
class Offload {
 public:
  virtual ~Offload() = default;
  virtual void add(OffloadJob& job) = 0;
};

// co_await call: runs `act` as a job of the Offload, and resumes the caller at home with its result.
template <class Act>
class [[nodiscard]] OffloadCall final : private Work, private OffloadJob {
 public:
  OffloadCall(Offload& offload, Executor& home, Act act, std::string_view owner = {})
      : OffloadJob(owner), offload_(offload), home_(home), act_(std::move(act)) {
    Work::run = [](Work& work) { static_cast<OffloadCall&>(work).caller_.resume(); };
  }
  OffloadCall(const OffloadCall&) = delete;
  OffloadCall& operator=(const OffloadCall&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> caller) {
    caller_ = caller;
    offload_.add(*this);
  }
  auto await_resume() { return *std::move(result_); }

 private:
  void execute() override { result_.emplace(act_()); }
  void executed() override { home_.post(*this); }

  Offload& offload_;
  Executor& home_;
  Act act_;
  std::optional<decltype(std::declval<Act&>()())> result_;
  std::coroutine_handle<> caller_;
};

}  // namespace once::base
