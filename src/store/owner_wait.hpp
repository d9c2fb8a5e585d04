// Waits for the end of another owner's claim, after which claiming again may succeed. Used by the gateway, the claims
// API and the library. OwnerWaitSteps decides, without I/O; OwnerWait asks the store and pauses, as a coroutine.
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

// Whether the client of a waiting request is still connected. Nothing was executed yet, so a client that leaves cancels
// its request.
class Presence {
 public:
  class Listener {
   public:
    // Called once, on the request's own executor. It must not resume the request directly.
    virtual void client_left() = 0;

   protected:
    ~Listener() = default;
  };

  // Returns whether the client is still connected; if not, the listener is not called.
  virtual bool listen(Listener& listener) = 0;
  virtual void stop_listening() = 0;
  // Whether the client has left, as far as is known now; for callers without a listener.
  virtual bool has_left() = 0;

 protected:
  ~Presence() = default;
};

// Ends a wait when its client leaves.
class Departure final : private Presence::Listener {
 public:
  // Without a presence the client never leaves.
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
  // The limit covers all owners together. In a store that is not shared, owners are in this process and notify waiters
  // at their end, so polling can be slow.
  OwnerWaitSteps(Shared shared, Duration limit) : ends_are_notified_(shared == Shared::no), limit_(limit) {}

  // `look` is a lookup, answered or failed: returns the pause before the next one. nullopt: the wait is over.
  std::optional<Duration> pause_after(const Op& look);
  // Reports how long the lookup and the pause after it took.
  void paused(Duration took);

  // Call when the wait is over: whether the owner has ended, so that claiming again may succeed. Otherwise the limit
  // has passed.
  bool owner_ended() const { return owner_ended_; }
  // Whether there was any pause.
  bool waited() const { return waited_ > Duration::zero(); }

 private:
  // The intervals at which a waiter polls.
  static constexpr Duration first_look = std::chrono::milliseconds(50);
  static constexpr Duration slowest_look = std::chrono::seconds(1);

  bool ends_are_notified_;
  Duration limit_;
  Duration waited_{};
  Backoff look_{first_look, slowest_look};
  bool owner_ended_ = false;
  // For the current owner.
  bool paused_ = false;
  bool worked_ = false;
  bool came_at_once_ = false;  // the last wait ended without a pause
};

enum class WaitEnd : std::uint8_t {
  owner_ended,   // or may have ended: claim again
  streams,       // its response has begun and can be read from the store
  limit,         // the owner is still executing, and the limit has passed
  left,          // the client has disconnected
  store_failed,  // for good: no owner can record an outcome any more
};

enum class Awaited : std::uint8_t {
  end,            // the end of the owner
  end_or_stream,  // the end, or the first chunk of the response
};

struct OwnerWaitPorts {
  Lanes& store;
  Waiters& waiters;
  Executor& home;
  const Clock& clock;  // the clock of the limit
};

class OwnerWait {
 public:
  explicit OwnerWait(const OwnerWaitPorts& ports, Duration limit = Duration::zero()) : ports_(ports) { begin(limit); }

  // Call once per request.
  void begin(Duration limit, Awaited awaited = Awaited::end) {
    steps_ = OwnerWaitSteps(ports_.store.store().traits().shared, limit);
    awaited_ = awaited;
  }
  // `seen` is the last lookup. Without a presence a disconnect is not noticed.
  Task<WaitEnd> wait(OperationId id, Presence* presence, Op& seen);
  bool waited() const { return steps_.waited(); }

 private:
  const OwnerWaitPorts ports_;
  OwnerWaitSteps steps_{Shared::no, Duration::zero()};
  Awaited awaited_ = Awaited::end;
};

}  // namespace once::store
