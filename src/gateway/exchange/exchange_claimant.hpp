// The claim protocol (store/claimant.hpp) as the gateway uses it: failures are counted, and what a request could not
// tell the store before it was answered is tried on in the background. A drain waits for that.
#pragma once

#include <memory>

#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/limits/key_quota.hpp"
#include "store/claimant.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

class ExchangeClaimant final : private ClaimantHost, public Claimant {
 public:
  // The ports outlive this; what they refer to outlives everything that is tried on.
  explicit ExchangeClaimant(const ExchangePorts& ports)
      : Claimant({.store = ports.store, .home = ports.home, .clock = ports.clock, .random = ports.random}, *this),
        ports_(ports) {}
  ExchangeClaimant(const ExchangeClaimant&) = delete;
  ExchangeClaimant& operator=(const ExchangeClaimant&) = delete;

  // Who pays for what the store keeps, from now on. Null: nobody.
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

// How a request of the gateway waits.
inline OwnerWaitPorts owner_wait_ports(const ExchangePorts& ports) {
  return {.store = ports.store, .waiters = ports.waiters, .home = ports.home, .clock = ports.clock};
}
// owner_ended: it is worth claiming again. Counted as waiting meanwhile.
Task<WaitEnd> owner_ends(OwnerWait& owner, const ExchangePorts& ports, OperationId id, Presence* presence);

}  // namespace once::gateway
