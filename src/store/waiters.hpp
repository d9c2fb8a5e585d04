// Requests of this process that wait for another request's outcome. The owner notifies them when it has ended; they
// then claim again to get its result. Owners in other processes do not notify, so waiters also poll.
#pragma once

#include <array>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <mutex>

#include "base/bytes.hpp"
#include "base/executor.hpp"

namespace once::store {

class Waiters {
 public:
  Waiters();
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;

  // Registers the caller from its construction on, so that no notification is missed: construct the ticket, look, and
  // only then wait.
  class Ticket;

  // Thread-safe.
  void notify(const OperationId& id);

 private:
  struct Entry {
    Entry* previous = nullptr;
    Entry* next = nullptr;
  };
  struct Bucket {
    std::mutex lock;
    Entry list;
  };
  static constexpr std::size_t bucket_count = 256;

  Bucket& bucket_of(const OperationId& id) { return buckets_[id.bytes[0] % bucket_count]; }

  std::array<Bucket, bucket_count> buckets_;
  std::atomic<std::size_t> listed_ = 0;
};

class Waiters::Ticket final : private Entry, private Work, private Timer {
 public:
  Ticket(Waiters& waiters, const OperationId& id, Executor& home);
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;
  ~Ticket();

  // co_await ticket.wait(limit): returns when notified, after the limit, or after end_wait().
  Ticket& wait(Duration limit) {
    limit_ = limit;
    return *this;
  }
  // Ends a wait. Called on the caller's own loop; the caller is resumed in the next round.
  void end_wait();
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> caller);
  void await_resume() const noexcept {}

 private:
  friend class Waiters;
  enum class State : unsigned char { listed, waiting, notified };

  void timed_out();
  void listed_again();

  Waiters& waiters_;
  OperationId id_;
  Executor& home_;
  Duration limit_{};
  State state_ = State::listed;  // guarded by the bucket's lock
  std::coroutine_handle<> caller_;
};

}  // namespace once::store
