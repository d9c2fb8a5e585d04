#include "store/lane.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"

namespace once {

namespace {

constexpr auto batch_bounds = growing_bounds<10>(1, 2);      // 1 … 512
constexpr auto time_bounds = growing_bounds<11>(10'000, 4);  // 10 µs … 10 s
// A lane looks past this many ops per place in a batch for one whose id is not in it yet. Ten thousand callers on
// one key must not make every batch walk over all of them.
constexpr std::size_t looks_per_place = 4;
// Alone, this many ops in a row have failed: it is the store, not one bad op, and the rest keep their answer.
constexpr std::size_t lone_failures_before_giving_up = 3;

std::uint64_t lane_bits(const OperationId& id) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, id.bytes.data() + 8, sizeof bits);
  return bits;
}

// First in, first out, linked through Work::next. Anything may be taken from the middle by walking the links.
class PendingQueue {
 public:
  PendingQueue() = default;
  PendingQueue(const PendingQueue&) = delete;
  PendingQueue& operator=(const PendingQueue&) = delete;

  bool empty() const { return first_ == nullptr; }

  void push(Pending& pending) {
    pending.next = nullptr;
    *end_ = &pending;
    end_ = &pending.next;
  }

  void take_all(PendingQueue& other) {
    if (other.empty()) return;
    *end_ = other.first_;
    end_ = other.end_;
    other.first_ = nullptr;
    other.end_ = &other.first_;
  }

  // Takes those that wanted() says yes to, in order, while more() holds.
  void take_if(auto&& more, auto&& wanted) {
    Work** link = &first_;
    while (*link != nullptr && more()) {
      Work& work = **link;
      if (wanted(static_cast<Pending&>(work))) {
        *link = work.next;
      } else {
        link = &work.next;
      }
    }
    if (*link == nullptr) end_ = link;
  }

 private:
  Work* first_ = nullptr;
  Work** end_ = &first_;
};

// The ops of one batch, no id twice.
class Batch {
 public:
  explicit Batch(std::size_t limit) : limit_(limit), slots_(std::bit_ceil(limit * 2)) {
    pending_.reserve(limit);
    ops_.reserve(limit);
  }

  void clear() {
    pending_.clear();
    ops_.clear();
    ++round_;
  }

  bool full() const { return ops_.size() == limit_; }

  bool add(Pending& pending) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = std::hash<OperationId>()(pending.op.id) & mask;
    for (; slots_[at].round == round_; at = (at + 1) & mask) {
      if (ops_[slots_[at].place]->id == pending.op.id) return false;
    }
    slots_[at] = {.round = round_, .place = ops_.size()};
    pending_.push_back(&pending);
    ops_.push_back(&pending.op);
    return true;
  }

  std::span<Op* const> ops() const { return ops_; }
  std::span<Pending*> pending() { return pending_; }

 private:
  struct Slot {
    std::uint64_t round = 0;  // free unless of this round, so that clearing costs nothing
    std::size_t place = 0;
  };

  const std::size_t limit_;
  std::uint64_t round_ = 1;
  std::vector<Pending*> pending_;
  std::vector<Op*> ops_;
  std::vector<Slot> slots_;
};

bool is_unavailable(const Op& op) {
  return op.status == OpStatus::failed && op.fault == StoreFault::unavailable;
}

// A driver's edge: what it throws becomes an answer here.
void execute_all(Store& store, std::span<Op* const> ops) {
  try {
    store.execute(ops);
  } catch (const std::exception& failure) {
    // Whatever was already filled in may not have been committed.
    for (Op* op : ops) answer_failed(*op, StoreFault::unavailable, failure.what());
  }
}

void execute_one_by_one(Store& store, std::span<Op* const> ops) {
  std::size_t failures = 0;
  for (Op* const& op : ops) {
    op->error.clear();
    execute_all(store, {&op, 1});
    failures = is_unavailable(*op) ? failures + 1 : 0;
    if (failures == lone_failures_before_giving_up) return;
  }
}

}  // namespace

class ThreadLanes::Lane : private Work {
 public:
  Lane(Store& store, const LaneLimits& limits)
      : Work{.run = [](Work& work) { static_cast<Lane&>(work).wake_up(); }},
        store_(store),
        limits_(limits),
        batch_(limits.batch),
        thread_([this] { loop(); }) {
    pthread_setname_np(thread_.native_handle(), "once-lane");
  }

  Submit submit(Pending& pending);
  void stop();
  void add_to(LaneStats& total) const;

 private:
  enum class More : std::uint8_t { no, yes };

  void loop();
  void wake_up();
  More wait_for_more();
  void gather();
  void execute();
  void complete_all();

  Store& store_;
  const LaneLimits limits_;

  std::mutex mutex_;
  std::condition_variable wake_;
  PendingQueue incoming_;
  bool asleep_ = false;
  bool waking_ = false;  // this, as Work, is at a caller's executor and will wake the lane
  bool stopping_ = false;

  // The lane's own thread.
  PendingQueue waiting_;
  Batch batch_;
  std::vector<Work*> told_;  // those of one caller's executor

  std::atomic<std::size_t> depth_{0};  // incoming and waiting
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> retried_{0};
  std::atomic<std::uint64_t> largest_{0};
  Histogram<batch_bounds.size()> batch_size_{batch_bounds};
  Histogram<time_bounds.size()> store_time_{time_bounds};

  std::thread thread_;  // last: it uses all of the above
};

Lanes::Submit ThreadLanes::Lane::submit(Pending& pending) {
  const char* refusal = nullptr;
  Executor& home = pending.home;
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) {
      refusal = "the store is closed";
    } else if (depth_.load(std::memory_order_relaxed) >= limits_.queue) {
      refusal = "store queue full";
    } else {
      incoming_.push(pending);
      depth_.fetch_add(1, std::memory_order_relaxed);
      wake = asleep_ && !std::exchange(waking_, true);
    }
  }
  // From here on the op may have been executed and its caller gone on, so only a refusal may touch `pending`.
  if (refusal != nullptr) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    answer_failed(pending.op, StoreFault::unavailable, refusal);
    return Submit::refused;
  }
  if (wake) home.post(*this);
  return Submit::taken;
}

void ThreadLanes::Lane::wake_up() {
  {
    const std::scoped_lock lock(mutex_);
    waking_ = false;
    asleep_ = false;
    wake_.notify_all();  // stop() may wait for it too; and once the mutex is free, this may be gone
  }
}

void ThreadLanes::Lane::loop() {
  while (wait_for_more() == More::yes) {
    gather();
    execute();
  }
}

ThreadLanes::Lane::More ThreadLanes::Lane::wait_for_more() {
  std::unique_lock lock(mutex_);
  if (waiting_.empty() && incoming_.empty() && !stopping_) {
    asleep_ = true;
    wake_.wait(lock, [this] { return !asleep_ || stopping_; });
    asleep_ = false;
  }
  waiting_.take_all(incoming_);
  return waiting_.empty() ? More::no : More::yes;
}

void ThreadLanes::Lane::gather() {
  batch_.clear();
  std::size_t looks = limits_.batch * looks_per_place;
  waiting_.take_if([&] { return !batch_.full() && looks-- > 0; },
                   [&](Pending& pending) { return batch_.add(pending); });
  depth_.fetch_sub(batch_.ops().size(), std::memory_order_relaxed);
}

void ThreadLanes::Lane::execute() {
  const std::span<Op* const> ops = batch_.ops();
  const std::chrono::nanoseconds begin = monotonic_now();
  execute_all(store_, ops);
  store_time_.observe(static_cast<std::uint64_t>((monotonic_now() - begin).count()));
  batch_size_.observe(ops.size());
  if (ops.size() > largest_.load(std::memory_order_relaxed)) largest_.store(ops.size(), std::memory_order_relaxed);
  if (ops.size() > 1 && std::ranges::all_of(ops, [](const Op* op) { return is_unavailable(*op); })) {
    retried_.fetch_add(1, std::memory_order_relaxed);
    execute_one_by_one(store_, ops);
  }
  complete_all();
}

void ThreadLanes::Lane::complete_all() {
  std::span<Pending*> left = batch_.pending();
  while (!left.empty()) {
    Executor& home = left.front()->home;
    std::size_t others = 0;
    told_.clear();
    for (Pending* each : left) {
      if (&each->home == &home) {
        told_.push_back(each);
      } else {
        left[others++] = each;
      }
    }
    left = left.first(others);
    home.post_all(told_);  // from here on these are gone
  }
}

void ThreadLanes::Lane::stop() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return !waking_; });  // nobody may run it after this
  }
  if (thread_.joinable()) thread_.join();
}

void ThreadLanes::Lane::add_to(LaneStats& total) const {
  total.batch_size.merge(batch_size_.snapshot());
  total.store_time_ns.merge(store_time_.snapshot());
  total.batches = total.batch_size.count;
  total.ops = total.batch_size.sum;
  total.refused += refused_.load(std::memory_order_relaxed);
  total.retried_batches += retried_.load(std::memory_order_relaxed);
  total.largest_batch = std::max(total.largest_batch, largest_.load(std::memory_order_relaxed));
  total.queue_depth += depth_.load(std::memory_order_relaxed);
}

ThreadLanes::ThreadLanes(Store& store, const LaneLimits& limits) : Lanes(store) {
  ONCE_ASSERT(limits.lanes > 0 && limits.queue > 0 && limits.batch > 0);
  if (store.traits().inline_execution) return;
  for (std::size_t i = 0; i < limits.lanes; ++i) lanes_.push_back(std::make_unique<Lane>(store, limits));
}

ThreadLanes::~ThreadLanes() {
  stop();
}

void ThreadLanes::stop() {
  for (const auto& lane : lanes_) lane->stop();
}

LaneStats ThreadLanes::stats() const {
  LaneStats total;
  for (const auto& lane : lanes_) lane->add_to(total);
  return total;
}

Lanes::Submit ThreadLanes::submit(Pending& pending) {
  return lanes_[lane_bits(pending.op.id) % lanes_.size()]->submit(pending);
}

}  // namespace once
