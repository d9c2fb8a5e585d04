// A lane without its thread: ops wait in order and go to the store in batches without duplicate ids. A batch that fails
// as a whole is retried op by op. ThreadLanes runs it on a thread, the simulator in virtual time.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/lane.hpp"

namespace once::store {

// A FIFO queue, linked through Work::next. Elements can be removed from the middle by following the links.
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

  // Removes the elements for which wanted() is true, in order, while more() is true.
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

// The ops of one batch; no id occurs twice.
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
    std::uint64_t round = 0;  // a slot is free unless it is of this round, so clearing costs nothing
    std::size_t place = 0;
  };

  const std::size_t limit_;
  std::uint64_t round_ = 1;
  std::vector<Pending*> pending_;
  std::vector<Op*> ops_;
  std::vector<Slot> slots_;
};

// The next batch for the store, and the ops that wait for later ones.
class LaneQueue {
 public:
  explicit LaneQueue(std::size_t most_ops) : most_ops_(most_ops), batch_(most_ops) {}

  bool empty() const { return waiting_.empty(); }
  void push(Pending& pending) { waiting_.push(pending); }
  void take_all(PendingQueue& incoming) { waiting_.take_all(incoming); }

  // Fills the batch with the oldest ops that fit.
  void gather();

  enum class Tried : std::uint8_t { once, again_one_by_one };
  // Executes the batch within the store's time limit, including retries.
  Tried execute(Store& store);

  // The executed ops of the batch. The caller resumes their coroutines, in any order.
  std::span<Pending*> pending() { return batch_.pending(); }
  std::size_t size() const { return batch_.ops().size(); }

 private:
  const std::size_t most_ops_;
  PendingQueue waiting_;
  Batch batch_;
};

}  // namespace once::store
