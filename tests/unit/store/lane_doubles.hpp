// What the lane tests stand on: an event loop on a thread of its own, and a store that blocks until told.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/executor.hpp"
#include "store/store.hpp"

namespace once::store {

// A test that waits longer than this for something has failed.
inline constexpr std::chrono::seconds patience(20);

// One thread's event loop, without timers.
class LoopExecutor final : public Executor {
 public:
  LoopExecutor() : thread_([this] { loop(); }) {}
  ~LoopExecutor() override { stop(); }

  void post(Work& work) override {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(&work);
    }
    wake_.notify_one();
  }
  void arm(Timer&, Duration) override { std::abort(); }
  void disarm(Timer&) override { std::abort(); }

  // Runs what is queued, then ends.
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }
  std::thread::id thread_id() const { return thread_.get_id(); }

 private:
  void loop() {
    for (;;) {
      Work* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return !queue_.empty() || stopping_; });
        if (queue_.empty()) return;
        work = queue_.front();
        queue_.pop_front();
      }
      work->run(*work);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work*> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

// Writes down every batch; each execute() waits for a permit and then does what the script says.
class ScriptedStore final : public Store {
 public:
  struct Seen {
    OperationId id;
    Attempt order;  // how the test numbered the op
  };
  using Batch = std::vector<Seen>;

  void execute(std::span<Op* const> ops) override {
    std::unique_lock lock(mutex_);
    Batch batch;
    for (const Op* op : ops) batch.push_back({op->id, Attempt{static_cast<std::uint32_t>(op->terms.ttl.count())}});
    batches_.push_back(batch);
    changed_.notify_all();
    ASSERT_TRUE(changed_.wait_for(lock, patience, [&] { return permits_ > 0; }));
    --permits_;
    if (script) return script(ops);
    for (Op* op : ops) op->status = OpStatus::done;
  }
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::yes}; }
  Duration time_limit() const override { return limit; }
  std::size_t part_of(const OperationId& id) const override { return part ? part(id) : 0; }

  void permit(std::size_t batches) {
    const std::scoped_lock lock(mutex_);
    permits_ += batches;
    changed_.notify_all();
  }
  void wait_for_batches(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, patience, [&] { return batches_.size() >= count; }));
  }
  std::vector<Batch> batches() {
    const std::scoped_lock lock(mutex_);
    return batches_;
  }

  std::function<void(std::span<Op* const>)> script;
  std::function<std::size_t(const OperationId&)> part;
  Duration limit = Duration::max();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t permits_ = 0;
  std::vector<Batch> batches_;
};

inline OperationId id_of(int number) {
  OperationId id;
  id.bytes.fill(static_cast<std::uint8_t>(number));
  return id;
}

}  // namespace once::store
