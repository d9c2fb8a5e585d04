// A memory store that fails where a test says, and lanes in virtual time. Every op leaves a line in the trace when the
// store has answered: "claim: execute", "finish succeeded: done", "release: failed".
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "sim/names.hpp"
#include "store/lane.hpp"
#include "store/memory/memory_store.hpp"
#include "tests/unit/support/virtual_time.hpp"

namespace once::support {

using Trace = std::vector<std::string>;

enum class Fault : std::uint8_t {
  none,
  before,     // not done, and answered as failed
  after,      // done, and the answer was lost
  full,       // refused for want of room
  no_chunks,  // done, but the chunks that a read asks for are gone
  locked,     // a claim finds the record in the hands of a backend that is about to commit: in flight, whatever it says
};

inline std::string_view text_of(OpStatus status) {
  switch (status) {
    case OpStatus::done: return "done";
    case OpStatus::lost: return "lost";
    case OpStatus::failed: return "failed";
  }
  return "";
}

// "finish succeeded", without how it ended.
inline std::string text_of(Verb verb, State final_state) {
  std::string text(name_of(verb));
  return verb == Verb::finish ? text.append(" ").append(sim::text_of(final_state)) : text;
}

class FaultyStore final : public Store {
 public:
  enum class Execution : std::uint8_t { at_once, in_a_lane };

  FaultyStore(const Clock& clock, Shared shared, Execution execution, Trace& trace)
      : inner_(clock, {.shared = shared}), execution_(execution), trace_(trace) {}

  void execute(std::span<Op* const> batch) override {
    for (Op* op : batch) execute_one(*op);
  }
  Traits traits() const override {
    Traits traits = inner_.traits();
    traits.inline_execution = execution_ == Execution::at_once;
    return traits;
  }

  Duration time_limit() const override { return time_limit_; }
  void limit_time(Duration limit) { time_limit_ = limit; }

  bool failed_for_good() const override { return gone_; }
  // Every op is refused from now on, as by a journal whose disk has failed.
  void fail_for_good() { gone_ = true; }

  // Which step fails, and how; asked for every op, steps are counted from 0.
  using Script = std::function<Fault(const Op& op, std::size_t step)>;
  void fail_when(Script script) { script_ = std::move(script); }
  void fail_step(std::size_t failing, Fault fault) {
    fail_when([=](const Op&, std::size_t step) { return step == failing ? fault : Fault::none; });
  }
  // The next `times` ops of that verb.
  void fail_next(Verb verb, Fault fault, std::size_t times = 1) {
    fail_when([=](const Op& op, std::size_t) mutable {
      if (op.verb != verb || times == 0) return Fault::none;
      --times;
      return fault;
    });
  }
  void fail_every(Verb verb, Fault fault = Fault::before) {
    fail_when([=](const Op& op, std::size_t) { return op.verb == verb ? fault : Fault::none; });
  }
  void go_down() {
    fail_when([](const Op&, std::size_t) { return Fault::before; });
  }
  void heal() { script_ = nullptr; }
  std::size_t steps() const { return steps_; }

  // What the store really holds, not counted and never failing.
  std::optional<Record> record(const OperationId& id) {
    Op op{.verb = Verb::lookup, .id = id};
    run_inside(op);
    return op.record;
  }
  // The label of its latest claim; "": there is no record.
  std::string route_label(const OperationId& id) {
    const auto page = inner_.get(id);
    return page && !page->keys.empty() ? page->keys.front().route.value_or("") : "";
  }
  // Somebody else's op: another gateway, or a person at the admin interface.
  void run_inside(Op& op) {
    Op* const batch = &op;
    inner_.execute({&batch, 1});
  }

 private:
  void execute_one(Op& op) {
    const Fault scripted = script_ ? script_(op, steps_) : Fault::none;
    const Fault fault = gone_ ? Fault::before : scripted;
    ++steps_;
    if (fault == Fault::none || fault == Fault::after || fault == Fault::no_chunks) run_inside(op);
    if (fault == Fault::no_chunks) op.chunks.clear();
    if (fault == Fault::before || fault == Fault::after) answer_failed(op, StoreFault::unavailable, "as scripted");
    if (fault == Fault::full) answer_failed(op, StoreFault::full, "as scripted");
    if (fault == Fault::locked) {
      op.record = record(op.id);
      op.status = OpStatus::done;
      op.verdict = Verdict::in_flight;
    }
    const bool decided = op.verb == Verb::claim && op.status == OpStatus::done;
    trace_.push_back(
        text_of(op.verb, op.final_state).append(": ").append(decided ? name_of(op.verdict) : text_of(op.status)));
  }

  MemoryStore inner_;
  const Execution execution_;
  Trace& trace_;
  Script script_;
  std::size_t steps_ = 0;
  Duration time_limit_ = Duration::max();
  bool gone_ = false;
};

// For a store that is executed by whoever asks.
class InlineLanes final : public Lanes {
 public:
  using Lanes::Lanes;

 protected:
  Submit submit(Pending& /*pending*/) override { return Submit::refused; }
};

// Each op takes `latency`, and is executed at the end of it, in the order submitted.
class VirtualLanes final : public Lanes {
 public:
  VirtualLanes(Store& store, VirtualExecutor& executor, Duration latency = Duration(1))
      : Lanes(store), executor_(executor), latency_(latency) {}

 protected:
  Submit submit(Pending& pending) override {
    Flight& flight = flights_.emplace_back();
    flight.lanes = this;
    flight.pending = &pending;
    flight.fire = [](Timer& timer) {
      const auto& landed = static_cast<Flight&>(timer);
      landed.lanes->land(landed);
    };
    executor_.arm(flight, latency_);
    return Submit::taken;
  }

 private:
  struct Flight : Timer {
    VirtualLanes* lanes = nullptr;
    Pending* pending = nullptr;
  };

  void land(const Flight& landed) {
    Pending& pending = *landed.pending;
    flights_.remove_if([&](const Flight& flight) { return &flight == &landed; });
    Op* const batch = &pending.op;
    store().execute({&batch, 1});
    complete(pending);
  }

  VirtualExecutor& executor_;
  const Duration latency_;
  std::list<Flight> flights_;
};

// The test says when an op is executed, and when its caller is told: for interleavings that a test chooses.
class PickedLanes final : public Lanes {
 public:
  using Lanes::Lanes;

  std::size_t waiting() const { return waiting_.size(); }
  void execute(std::size_t which) {
    Op* const batch = &waiting_.at(which)->op;
    store().execute({&batch, 1});
  }
  void tell(std::size_t which) {
    Pending& pending = *waiting_.at(which);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
    complete(pending);
  }
  void execute_next() {
    execute(0);
    tell(0);
  }

 protected:
  Submit submit(Pending& pending) override {
    waiting_.push_back(&pending);
    return Submit::taken;
  }

 private:
  std::vector<Pending*> waiting_;
};

}  // namespace once::support
