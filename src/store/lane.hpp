// Lanes: how requests reach the store. `co_await lanes.run(op, home)` fills in the op's results and resumes the caller
// on its own executor. A lane is a thread that takes all waiting ops, executes them as one batch and wakes the callers.
// While one batch is at the store the next one gathers, so batches grow with the load. A busy lane waits a moment for
// the callers it has just answered to come back, never longer than the store took for them. An idle lane is woken when
// the caller's executor becomes idle, so that ops that arrived together form one batch; and at once when a second
// executor has an op for it, which must not wait for the first one. An operation always goes to the same lane and a
// batch never has the same id twice, so order per key holds.
//
// Each part of a store (Store::part_of) has its own lanes, created on first use: a batch has ops of one part and waits
// for no other part. An operation that moves to another part uses that part's lanes from then on.
//
// A store with inline_execution does not use lanes: the caller's thread executes the op and does not suspend. Neither
// does an op that the store can answer at once, such as a replay from memory.
#pragma once

#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/executor.hpp"
#include "base/histogram.hpp"
#include "store/store.hpp"

namespace once::store {

// An op in flight: queued in a lane and then, as Work, at its caller's executor. Lives in the awaiting coroutine's
// frame.
struct Pending : Work {
  Pending(Op& the_op, Executor& the_home) : op(the_op), home(the_home) {}

  Op& op;
  Executor& home;
  std::coroutine_handle<> caller;
};

// The interface for the gateway. ThreadLanes is the production class; the simulator has its own submit().
class Lanes {
 public:
  explicit Lanes(Store& store) : store_(store), inline_execution_(store.traits().inline_execution) {}
  virtual ~Lanes() = default;
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // co_await lanes.run(op, home). `home` is the executor of the calling thread; op must live until resumed.
  class Run;
  Run run(Op& op, Executor& home);

  Store& store() const { return store_; }

 protected:
  enum class Submit : std::uint8_t {
    taken,    // complete() will resume the caller, or already has
    refused,  // the op is answered and the caller continues at once
  };

  virtual Submit submit(Pending& pending) = 0;

  // Call when the op has its results: resumes the caller on its own executor and invalidates `pending`.
  static void complete(Pending& pending) { pending.home.post(pending); }

 private:
  Store& store_;
  const bool inline_execution_;
};

class [[nodiscard]] Lanes::Run final : private Pending {
 public:
  Run(Lanes& lanes, Op& the_op, Executor& the_home) : Pending(the_op, the_home), lanes_(lanes) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool await_ready() {
    if (!lanes_.inline_execution_) return lanes_.store_.answer_at_once(op);
    Op* const batch = &op;
    execute_caught(lanes_.store_, {&batch, 1});
    return true;
  }
  bool await_suspend(std::coroutine_handle<> the_caller) {
    caller = the_caller;
    run = [](Work& work) { static_cast<Pending&>(work).caller.resume(); };
    return lanes_.submit(*this) == Submit::taken;
  }
  void await_resume() const noexcept {}

 private:
  Lanes& lanes_;
};

inline Lanes::Run Lanes::run(Op& op, Executor& home) {
  return {*this, op, home};
}

struct LaneLimits {
  std::size_t lanes = 1;       // per part of the store
  std::size_t queue = 65'536;  // ops waiting in one lane; more are refused as unavailable
  std::size_t batch = 512;     // ops in one batch
};

// If a store has more parts than this, parts share lanes.
inline constexpr std::size_t most_lane_parts = 64;

// Totals since the start, for all lanes. A store with inline_execution is not counted.
struct LaneStats {
  std::uint64_t ops = 0;
  std::uint64_t batches = 0;
  std::uint64_t refused = 0;          // queue full, or stopped
  std::uint64_t retried_batches = 0;  // failed as a whole and tried again op by op
  std::uint64_t largest_batch = 0;
  std::size_t queue_depth = 0;  // waiting now
  std::size_t queue_limit = 0;  // the limit of all lanes together
  std::size_t asleep = 0;       // idle lanes
  HistogramSnapshot batch_size;
  HistogramSnapshot store_time_ns;  // of execute(), per batch
};

class ThreadLanes final : public Lanes {
 public:
  explicit ThreadLanes(Store& store, const LaneLimits& limits = LaneLimits());
  ~ThreadLanes() override;

  // Executes the queued ops, then ends the threads. Ops submitted from now on are refused. The callers' executors must
  // outlive this call.
  void stop();

  LaneStats stats() const;

 protected:
  Submit submit(Pending& pending) override;

 private:
  class Lane;
  using Part = std::vector<std::unique_ptr<Lane>>;

  // Null: the lanes were stopped.
  Part* add_part(std::size_t place);

  const LaneLimits limits_;
  std::array<std::atomic<Part*>, most_lane_parts> parts_{};
  std::mutex mutex_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<Part>> owned_;  // the owners of what parts_ points to
};

}  // namespace once::store
