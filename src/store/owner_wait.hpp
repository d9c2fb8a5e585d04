// Waiting until the owner of a claim has ended, so that it is worth claiming oneself. The gateway, the claims API and
// the library all wait like this. OwnerWaitSteps decides, without I/O; OwnerWait asks the store and pauses, as a
// coroutine.
#pragma once

#include <cstdint>
#include <optional>

#include "base/backoff.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/task.hpp"
#include "store/lane.hpp"
#include "store/store.hpp"
#include "store/waiters.hpp"

namespace once::store {

// Whether somebody still wants the answer to a request that waits. Nothing was done for it yet, so a client that leaves
// takes its request with it.
class Presence {
 public:
  class Listener {
   public:
    // Called once, on the request's own executor. Must not resume the request from here.
    virtual void client_left() = 0;

   protected:
    ~Listener() = default;
  };

  // False: the client has left already, and the listener is not called.
  virtual bool listen(Listener& listener) = 0;
  virtual void stop_listening() = 0;
  // As far as is known now; for those who cannot call a listener.
  virtual bool has_left() = 0;

 protected:
  ~Presence() = default;
};

// Ends a wait when its client leaves.
class Departure final : private Presence::Listener {
 public:
  // Without a presence it never leaves.
  Departure(Presence* presence, Waiters::Ticket& ticket)
      : presence_(presence), ticket_(ticket), left_(presence != nullptr && !presence->listen(*this)) {}
  Departure(const Departure&) = delete;
  Departure& operator=(const Departure&) = delete;
  ~Departure() {
    if (presence_ != nullptr) presence_->stop_listening();
  }

  bool left() const { return left_ || (presence_ != nullptr && presence_->has_left()); }

 private:
  void client_left() override {
    left_ = true;
    ticket_.end_wait();
  }

  Presence* presence_;
  Waiters::Ticket& ticket_;
  bool left_;
};

class OwnerWaitSteps {
 public:
  // The limit is for all owners together. In a store that is not shared owners are in this process, and tell those who
  // wait when they end: looking seldom is enough.
  OwnerWaitSteps(Shared shared, Duration limit) : ends_are_told_(shared == Shared::no), limit_(limit) {}

  // `look` is a look-up that was answered, or failed: how long to pause before the next. Nothing: the wait is over.
  std::optional<Duration> pause_after(const Op& look);
  // How long the look and the pause after it took.
  void paused(Duration took);

  // When the wait is over. True: the owner has ended, and it is worth claiming again. False: the limit has passed.
  bool owner_ended() const { return owner_ended_; }
  // Whether there was a pause at all.
  bool waited() const { return waited_ > Duration::zero(); }

 private:
  // How often a waiter looks by itself.
  static constexpr Duration first_look = std::chrono::milliseconds(50);
  static constexpr Duration slowest_look = std::chrono::seconds(1);

  bool ends_are_told_;
  Duration limit_;
  Duration waited_{};
  Backoff look_{first_look, slowest_look};
  bool owner_ended_ = false;
  // Of the owner that is waited for now.
  bool paused_ = false;
  bool worked_ = false;
  bool came_at_once_ = false;  // the last wait ended without a pause
};

enum class WaitEnd : std::uint8_t {
  owner_ended,   // or may have: it is worth claiming again
  streams,       // its response has begun, and can be read from the store
  limit,         // the owner is at work, and the limit has passed
  left,          // nobody wants the answer any more
  store_failed,  // for good: no owner can record its outcome
};

enum class Awaited : std::uint8_t {
  end,            // of the owner
  end_or_stream,  // or the first chunk of its response
};

struct OwnerWaitPorts {
  Lanes& store;
  Waiters& waiters;
  Executor& home;
  const Clock& clock;  // by which the limit runs
};

class OwnerWait {
 public:
  explicit OwnerWait(const OwnerWaitPorts& ports, Duration limit = Duration::zero()) : ports_(ports) { begin(limit); }

  // For the next request.
  void begin(Duration limit, Awaited awaited = Awaited::end) {
    steps_ = OwnerWaitSteps(ports_.store.store().traits().shared, limit);
    awaited_ = awaited;
  }
  // `seen` is the last look-up. Without a presence nobody asks whether the client has left.
  Task<WaitEnd> wait(OperationId id, Presence* presence, Op& seen);
  bool waited() const { return steps_.waited(); }

 private:
  const OwnerWaitPorts ports_;
  OwnerWaitSteps steps_{Shared::no, Duration::zero()};
  Awaited awaited_ = Awaited::end;
};

}  // namespace once::store
