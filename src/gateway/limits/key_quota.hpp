// What one keyed request is charged under the quotas of its caller (limits.caller) and its network (limits.address).
// Stored bytes follow the store's results for the ops of its claim, so they are correct however the request ends:
// answered, stopped, cut off, taken over or committed by the backend.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/task.hpp"
#include "core/operation.hpp"
#include "core/problem.hpp"
#include "gateway/connection/reply.hpp"
#include "gateway/limits/caller_limits.hpp"
#include "gateway/settings.hpp"
#include "store/lane.hpp"

namespace once::gateway {

struct QuotaTables {
  TenantTag anonymous{};  // the tag of requests without a caller
  CallerTable callers{};
  CallerTable networks{};       // of callers that are not proven, by http::PeerNetwork
  Duration reclaimed_within{};  // Traits::reclaims_within

  // The store evicted a record, or a part of it, before it expired.
  void evicted(const Evicted& what, std::chrono::nanoseconds running);
};

// Follows the store: returns evicted bytes to their quota, and counts bytes that the store frees late until then.
void follow_store(Store& store, const std::shared_ptr<QuotaTables>& tables, const Clock& clock);

class KeyQuota {
 public:
  static constexpr CallerTable::Refusal too_many_at_work{.limit = CallerLimit::in_flight, .retry_after_seconds = 1};

  KeyQuota(QuotaTables& tables, const Limits& limits, const Clock& clock)
      : tables_(tables), limits_(limits), clock_(clock) {}

  // Counts the request as in progress for its caller until this is destroyed. Fails if the caller has reached its
  // limit.
  bool begin(const TenantTag& caller);
  // Charges new keys to this network too. nullopt: to none.
  void charge(const std::optional<TenantTag>& network) { network_ = network; }
  bool is_limited() const { return caller_ || network_; }

  // Takes a key that may be new. It is charged unless refused.
  std::optional<CallerTable::Refusal> take_key();
  // Whether this op may go to the store: chunks of a stream are refused while the caller or the network is over its
  // quota of stored bytes. Otherwise streams that began together could exceed it by far.
  bool has_room_for(const Op& op);
  // Call when the store has answered an op of this request.
  void answered(const Op& op);
  // This op will end the claim after the request has been answered.
  void ends_later(const Op& op);
  // Call at the end of the request: gives back a key that was not new.
  void settle(const Reply& reply);

 private:
  // The bytes that the store keeps for this request's claim.
  struct Kept {
    std::size_t record = 0;
    std::size_t chunks = 0;
    std::size_t outcome = 0;

    bool operator==(const Kept&) const = default;
  };

  bool is_own(const Op& op) const { return claimed_ && op.id == id_; }
  void claimed(const Op& op);
  void appended(const Op& op);
  void ended(const Op& op);
  void may_be_done(const Op& op);
  void may_be_stopped(const Op& op);
  void seen(const Op& op);
  std::size_t most_of_outcome(State state, const OutcomeBytes& outcome, std::size_t chunks) const;
  // A newer claim, without chunks, may have been handed to the request.
  void follow(const Nonce& nonce);
  void count(const Kept& kept, Duration life);
  // Charges chunks that are no longer needed, but may still take space in the store.
  void leave(std::size_t bytes);

  QuotaTables& tables_;
  const Limits& limits_;
  const Clock& clock_;
  CallerUse caller_;
  std::optional<TenantTag> network_;
  bool network_counted_ = false;  // the key was counted as new
  bool claimed_ = false;
  OperationId id_{};
  Nonce nonce_{};
  std::uint32_t next_chunk_ = 0;
  std::size_t head_ = 0;  // bytes of the first chunk
  Kept kept_;
  Duration life_{};
  StoredBytes caller_bytes_;   // counted for the caller
  StoredBytes network_bytes_;  // counted for the network
};

// The refusal for a new key over the limit; nullopt if the request may continue. A key that the store has is not new.
Task<std::optional<CallerTable::Refusal>> refuse_new_key(KeyQuota& quota, const OperationId& operation, Lanes& store,
                                                         Executor& home);
// The problem for a caller that reached a limit.
Problem limit_problem(const CallerTable::Refusal& refusal);

}  // namespace once::gateway
