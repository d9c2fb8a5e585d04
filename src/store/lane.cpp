#include "store/lane.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/signals.hpp"
#include "store/lane_queue.hpp"

namespace once::store {

namespace {

constexpr auto batch_bounds = growing_bounds<10>(1, 2);      // 1 … 512
constexpr auto time_bounds = growing_bounds<11>(10'000, 4);  // 10 µs … 10 s

constexpr std::chrono::nanoseconds longest_wait = std::chrono::milliseconds(1);

constexpr const char* closed = "the store is closed";

std::uint64_t lane_bits(const OperationId& id) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, id.bytes.data() + 8, sizeof bits);
  return bits;
}

}  // namespace

class ThreadLanes::Lane : private Work {
 public:
  Lane(Store& store, const LaneLimits& limits)
      : Work{.run = [](Work& work) { static_cast<Lane&>(work).wake_up(); }},
        store_(store),
        limits_(limits),
        queue_(limits.batch),
        thread_([this] { loop(); }) {
    pthread_setname_np(thread_.native_handle(), "once-lane");
  }

  ~Lane() { stop(); }  // also runs if creating a later lane fails

  Submit submit(Pending& pending);
  void stop();
  void add_to(LaneStats& total) const;

 private:
  enum class More : std::uint8_t { no, yes };

  void loop();
  void wake_up();
  More wait_for_more();
  std::size_t waiting() const { return depth_.load(std::memory_order_relaxed); }
  void execute();
  void complete_all();

  Store& store_;
  const LaneLimits limits_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  PendingQueue incoming_;
  bool asleep_ = false;
  std::size_t wanted_ = 0;           // how many ops the lane waits for, for a short time
  bool waking_ = false;              // this, as Work, is posted to a caller's executor and will wake the lane
  const Executor* waker_ = nullptr;  // the executor it is posted to
  bool stopping_ = false;

  // Used by the lane's own thread only.
  LaneQueue queue_;
  std::size_t last_size_ = 0;
  std::chrono::nanoseconds last_took_{};
  std::vector<Work*> answered_;  // callers to resume on one executor

  std::atomic<std::size_t> depth_{0};  // incoming and waiting
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> retried_{0};
  std::atomic<std::uint64_t> largest_{0};
  Histogram<batch_bounds.size()> batch_size_{batch_bounds};
  Histogram<time_bounds.size()> store_time_{time_bounds};

  std::thread thread_;  // declared last, because it uses all of the above
};

Lanes::Submit ThreadLanes::Lane::submit(Pending& pending) {
  const char* refusal = nullptr;
  Executor& home = pending.home;
  bool wake = false;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) {
      refusal = closed;
    } else if (depth_.load(std::memory_order_relaxed) >= limits_.queue) {
      refusal = "store queue full";
    } else {
      incoming_.push(pending);
      depth_.fetch_add(1, std::memory_order_relaxed);
      wake = asleep_ && !std::exchange(waking_, true);
      if (wake) {
        waker_ = &home;
      } else if (asleep_ && waker_ != &home) {
        asleep_ = false;
        wake_.notify_all();
      }
      if (wanted_ != 0 && waiting() >= wanted_) wake_.notify_all();
    }
  }
  // The op may already have been executed and its caller resumed, so only a refusal may touch `pending` here.
  if (refusal != nullptr) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    answer_failed(pending.op, StoreFault::refused, refusal);
    return Submit::refused;
  }
  if (wake) home.post(*this);
  return Submit::taken;
}

void ThreadLanes::Lane::wake_up() {
  {
    const std::scoped_lock lock(mutex_);
    waking_ = false;
    if (!incoming_.empty()) asleep_ = false;  // another executor may have woken it, and it may be asleep again
    wake_.notify_all();  // stop() may wait for it too; once the mutex is free, this may be destroyed
  }
}

void ThreadLanes::Lane::loop() {
  while (wait_for_more() == More::yes) {
    execute();
  }
}

ThreadLanes::Lane::More ThreadLanes::Lane::wait_for_more() {
  std::unique_lock lock(mutex_);
  if (queue_.empty() && incoming_.empty() && !stopping_) {
    asleep_ = true;
    wake_.wait(lock, [this] { return !asleep_ || stopping_; });
    asleep_ = false;
  } else if (waiting() < last_size_ && !stopping_) {
    // The callers that were just answered will be back soon. Waiting for as many ops as last time, for at most as long
    // as the store took, halves the cost of syncs on a busy gateway; a single caller never waits.
    wanted_ = last_size_;
    wake_.wait_for(lock, std::min(last_took_, longest_wait), [this] { return waiting() >= wanted_ || stopping_; });
    wanted_ = 0;
  }
  queue_.take_all(incoming_);
  return queue_.empty() ? More::no : More::yes;
}

void ThreadLanes::Lane::execute() {
  queue_.gather();
  depth_.fetch_sub(queue_.size(), std::memory_order_relaxed);
  const std::chrono::nanoseconds begin = monotonic_now();
  if (queue_.execute(store_) == LaneQueue::Tried::again_one_by_one) retried_.fetch_add(1, std::memory_order_relaxed);
  last_took_ = monotonic_now() - begin;
  last_size_ = queue_.size();
  store_time_.observe(static_cast<std::uint64_t>(last_took_.count()));
  batch_size_.observe(queue_.size());
  if (queue_.size() > largest_.load(std::memory_order_relaxed))
    largest_.store(queue_.size(), std::memory_order_relaxed);
  complete_all();
}

void ThreadLanes::Lane::complete_all() {
  std::span<Pending*> left = queue_.pending();
  while (!left.empty()) {
    Executor& home = left.front()->home;
    std::size_t others = 0;
    answered_.clear();
    for (Pending* each : left) {
      if (&each->home == &home) {
        answered_.push_back(each);
      } else {
        left[others++] = each;
      }
    }
    left = left.first(others);
    home.post_all(answered_);  // their callers may resume and destroy these at once
  }
}

void ThreadLanes::Lane::stop() {
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
    wake_.wait(lock, [this] { return !waking_; });  // the posted Work must not run after stop()
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
  total.queue_limit += limits_.queue;
  const std::scoped_lock lock(mutex_);
  total.asleep += asleep_ ? 1 : 0;
}

ThreadLanes::ThreadLanes(Store& store, const LaneLimits& limits) : Lanes(store), limits_(limits) {
  ONCE_ASSERT(limits.lanes > 0 && limits.queue > 0 && limits.batch > 0);
  if (!store.traits().inline_execution) add_part(0);
}

ThreadLanes::Part* ThreadLanes::add_part(std::size_t place) {
  const std::scoped_lock lock(mutex_);
  if (Part* const there = parts_[place].load(std::memory_order_relaxed)) return there;
  if (stopped_) return nullptr;
  Part& part = *owned_.emplace_back(std::make_unique<Part>());
  const SignalsBlocked quiet;
  for (std::size_t i = 0; i < limits_.lanes; ++i) part.push_back(std::make_unique<Lane>(store(), limits_));
  parts_[place].store(&part, std::memory_order_release);
  return &part;
}

ThreadLanes::~ThreadLanes() {
  stop();
}

void ThreadLanes::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }
  for (const auto& part : owned_) {
    for (const auto& lane : *part) lane->stop();
  }
}

LaneStats ThreadLanes::stats() const {
  LaneStats total;
  for (const std::atomic<Part*>& place : parts_) {
    const Part* const part = place.load(std::memory_order_acquire);
    if (part == nullptr) continue;
    for (const auto& lane : *part) lane->add_to(total);
  }
  return total;
}

Lanes::Submit ThreadLanes::submit(Pending& pending) {
  const OperationId& id = pending.op.id;
  const std::size_t place = store().part_of(id) % most_lane_parts;
  Part* part = parts_[place].load(std::memory_order_acquire);
  if (part == nullptr) part = add_part(place);
  if (part == nullptr) {
    answer_failed(pending.op, StoreFault::refused, closed);
    return Submit::refused;
  }
  return (*part)[lane_bits(id) % part->size()]->submit(pending);
}

}  // namespace once::store
