// Tracks the oldest request in progress of a worker. One thread adds and removes entries; any thread may read the age.
#pragma once

#include <atomic>
#include <chrono>

#include "base/layers.hpp"

namespace once::gateway {

class AtWork {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  AtWork() { ends_.previous = ends_.next = &ends_; }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  struct Link {
    Link* previous = nullptr;
    Link* next = nullptr;
    Nanoseconds since{};
  };

 public:
  // A request is in progress while its Entry lives. `since` is monotonic_now(), never earlier than that of older
  // entries.
  class Entry : private Link {
   public:
    Entry(AtWork& all, Nanoseconds the_since) : all_(all) {
      since = the_since;
      previous = all.ends_.previous;
      next = &all.ends_;
      previous->next = this;
      all.ends_.previous = this;
      if (previous == &all.ends_) all.publish_oldest();
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() {
      const bool was_oldest = previous == &all_.ends_;
      previous->next = next;
      next->previous = previous;
      if (was_oldest) all_.publish_oldest();
    }

   private:
    AtWork& all_;
  };

  // The age of the oldest request; zero if there is none.
  Nanoseconds oldest(Nanoseconds now) const {
    const Nanoseconds since(oldest_since_.load(std::memory_order_relaxed));
    return since == Nanoseconds::zero() || now < since ? Nanoseconds::zero() : now - since;
  }

 private:
  void publish_oldest() { oldest_since_.store(ends_.next->since.count(), std::memory_order_relaxed); }

  Link ends_;  // list head, the oldest first; its own time stays zero
  std::atomic<Nanoseconds::rep> oldest_since_ = 0;
};

}  // namespace once::gateway
