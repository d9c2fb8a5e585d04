// The claim protocol (store/claimant.hpp) as the gateway uses it: counts failures, and retries in the background what
// the store did not accept before the client was answered. A drain waits for those retries.
#pragma once

#include <memory>

#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/limits/key_quota.hpp"
#include "store/claimant.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

class ExchangeClaimant final : private ClaimantHost, public Claimant {
 public:
  // The ports outlive this; what they refer to also outlives every background retry.
  explicit ExchangeClaimant(const ExchangePorts& ports)
      : Claimant({.store = ports.store, .home = ports.home, .clock = ports.clock, .random = ports.random}, *this),
        ports_(ports) {}
  ExchangeClaimant(const ExchangeClaimant&) = delete;
  ExchangeClaimant& operator=(const ExchangeClaimant&) = delete;

  // Sets the quota that stored bytes are charged to from now on. Null: none.
  void charge_to(KeyQuota* quota) { quota_ = quota; }

 private:
  void store_failed(const Op& op) override;
  void retries(const Op& op) override;
  bool has_room_for(const Op& op) override;
  void store_answered(const Op& op) override;
  void end_in_background(Op end, Stands claim, std::shared_ptr<const void> kept_alive) override;

  const ExchangePorts& ports_;
  KeyQuota* quota_ = nullptr;
};

// The ports for waiting on another owner's claim.
inline OwnerWaitPorts owner_wait_ports(const ExchangePorts& ports) {
  return {.store = ports.store, .waiters = ports.waiters, .home = ports.home, .clock = ports.clock};
}
// Waits for the owner, counted as waiting meanwhile. owner_ended: claim again.
Task<WaitEnd> owner_ends(OwnerWait& owner, const ExchangePorts& ports, OperationId id, Presence* presence);

}  // namespace once::gateway
