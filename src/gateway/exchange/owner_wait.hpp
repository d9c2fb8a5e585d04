// Waits until whoever has claimed a record ends, so that it is worth claiming it oneself.
#pragma once

#include <cstdint>

#include "base/backoff.hpp"
#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/task.hpp"
#include "gateway/connection/presence.hpp"
#include "gateway/exchange/exchange_ports.hpp"

namespace once::gateway {

class OwnerWait {
 public:
  // Whether an owner that ends says so to those who wait: only one in this process does, and one whose lease lapses
  // never.
  enum class Ends : std::uint8_t { told, unheard };

  // The ports outlive this.
  explicit OwnerWait(const ExchangePorts& ports) : ports_(ports) {}

  // Before the first wait. The limit is for all owners together.
  void begin(Ends ends, Duration limit);

  // True when it is worth claiming again: the owner has ended, or may have. False: the limit has passed, the client has
  // left, or the store has failed for good. Without a presence nobody asks whether the client has left.
  Task<bool> wait(const OperationId& id, Presence* presence);
  // Whether there was a wait at all.
  bool waited() const { return waited_ > Duration::zero(); }

 private:
  // How often a waiter looks by itself.
  static constexpr Duration first_look = std::chrono::milliseconds(50);
  static constexpr Duration slowest_look = std::chrono::seconds(1);

  const ExchangePorts& ports_;
  Ends ends_ = Ends::unheard;
  Duration limit_{};
  Duration waited_{};
  Backoff look_{first_look, slowest_look};  // how long until the next look
  bool came_at_once_ = false;               // back to claim again, without a pause
};

}  // namespace once::gateway
