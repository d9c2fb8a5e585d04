// The claim protocol for blocking threads. They use the lanes like the gateway's coroutines: concurrent ops of many
// threads go to the store as one batch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "store/claimant.hpp"
#include "store/owner_wait.hpp"

namespace once::guard {

// The executor of a thread that runs one task to its end. The task waits for one event at a time.
class Blocking final : public Executor {
 public:
  void post(Work& work) override;
  void arm(Timer& timer, Duration after) override;
  void disarm(Timer& timer) override;

  template <class T>
  T wait_for(Task<T> task) {
    std::optional<T> result;
    spawn(collect(std::move(task), result, *this));
    run_until_done();
    return *std::move(result);
  }
  void wait_for(Task<void> task) {
    spawn(complete(std::move(task), *this));
    run_until_done();
  }

 private:
  template <class T>
  static Task<void> collect(Task<T> task, std::optional<T>& result, Blocking& home) {
    T value = co_await task;
    result.emplace(std::move(value));
    home.done_ = true;
  }
  static Task<void> complete(Task<void> task, Blocking& home);
  void run_until_done();

  const std::thread::id thread_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable posted_;
  Work* ready_ = nullptr;  // guarded by the mutex; the rest is used by this thread only
  Timer* timer_ = nullptr;
  std::chrono::nanoseconds timer_due_{};
  bool done_ = false;
};

// A claimant for the calling thread.
class BlockingClaimant {
 public:
  BlockingClaimant(Lanes& store, Waiters& waiters, const Clock& clock, Random& random, ClaimantHost& host)
      : claimant_({.store = store, .home = home_, .clock = clock, .random = random}, host),
        owner_({.store = store, .waiters = waiters, .home = home_, .clock = thread_clock_}) {}

  ClaimResult claim(Op& op) { return home_.wait_for(claimant_.claim(op)); }
  Executions::Entered enter(const Op& op, Executions::Entry& work) { return home_.wait_for(claimant_.enter(op, work)); }
  void leave(const Op& op, Executions::Entry& work) { home_.wait_for(claimant_.leave(op, work)); }
  void ask(Op& op) { home_.wait_for(claimant_.ask(op)); }
  void end(Op& op, Duration limit, const Executions::Entry* work) { home_.wait_for(claimant_.end(op, limit, work)); }
  void release(Op& op) { home_.wait_for(claimant_.release(op)); }
  Committed find_committed(Op& op) { return home_.wait_for(claimant_.find_committed(op)); }
  void begin_wait(Duration limit) { owner_.begin(limit); }
  WaitEnd wait_for_owner(const OperationId& id, Presence& presence) {
    Op seen;
    return home_.wait_for(owner_.wait(id, &presence, seen));
  }
  void take_back_later(const Op& op) { claimant_.take_back_later(op); }
  void end_later(const Op& op, Stands claim) { claimant_.end_later(op, claim); }

 private:
  Blocking home_;
  Claimant claimant_;
  SystemClock thread_clock_;  // threads wait in real time, whatever the store's clock
  OwnerWait owner_;
};

}  // namespace once::guard
