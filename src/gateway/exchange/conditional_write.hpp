// A write on a route with conditional.if_match, with or without conditions. It is checked and forwarded while its
// resource is claimed in the store: if two writers name the same state, only one of them succeeds, at whatever
// gateway. The claim belongs to the resource and to no caller or key. docs/guides/conditional.md has the guarantees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "core/etag.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/conditional.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/exchange/lease_keeper.hpp"
#include "http/head.hpp"
#include "store/owner_wait.hpp"

namespace once::gateway {

// A request that writes to the resource of its path. Its views live until the write has ended.
struct WriteRequest {
  const Policy& policy;
  Backend& backend;
  http::RequestHead& head;
  std::string_view request_id;
  std::string_view resource;  // the normalised path, so that other spellings of it do not let two writers in
  std::optional<OperationId> life = std::nullopt;  // the marker of the resource, if the write ends its life
  std::string_view strip_prefix = {};
  const Origin* origin = nullptr;
  Presence* presence = nullptr;  // of its client, while it waits; null: assumed present
};

// What is known about the effect of a write that has ended.
enum class WriteEnd : std::uint8_t {
  known,    // its whole response arrived, or nothing was sent
  unknown,  // it may still take effect
};

Problem resource_busy(std::string detail);
// The write was admitted, but its claim was lost before it could be sent.
inline constexpr std::string_view resource_lost = "The claim on the resource was lost; nothing was executed.";

// One conditional write. The ports outlive it.
class ConditionalWrite {
 public:
  ConditionalWrite(const ExchangePorts& ports, const OperationIds& ids, const WriteRequest& write)
      : ports_(ports),
        claimant_(ports),
        ids_(ids),
        write_(write),
        work_(ports.executions),
        lease_(ports.store, ports.home, ports.clock, ports.metrics),
        owner_(owner_wait_ports(ports), write.policy.wait_limit) {}

  // Waits for earlier writers, claims the resource, and compares its state with the conditions. Returns a problem if
  // the write must not be sent; then nothing is held. Otherwise call end() later. Conditions that were checked are
  // removed from the head, because the backend does not know Once's tags. A backend with tags of its own gets the
  // conditions unchanged and decides itself.
  Task<std::optional<Problem>> begin();
  // Asked immediately before the first byte of the write.
  bool may_send() const { return !claimed_ || lease_.may_send(); }
  // If `end` is unknown, the claim lapses with its lease, so the next writer reads the resource only after that.
  Task<void> end(WriteEnd end);
  bool holds_resource() const { return entered_; }

 private:
  Task<std::optional<Problem>> claim();
  Task<void> ask_for_resource();
  std::optional<Problem> go_without_claim();
  Task<std::optional<Problem>> check();
  Task<BackendAnswer> read_current();
  Task<std::optional<Problem>> hold();
  Task<OpStatus> release(Nonce nonce);
  void count(PreconditionResult result);
  Problem refuse(PreconditionResult result, Problem problem);

  const ExchangePorts& ports_;
  ExchangeClaimant claimant_;
  const OperationIds& ids_;
  const WriteRequest& write_;
  Precondition precondition_;
  Op op_;
  Executions::Entry work_;
  LeaseKeeper lease_;
  ClaimResult asked_;  // the state of the claim
  OwnerWait owner_;
  Fields added_;  // for the backend
  bool entered_ = false;
  bool claimed_ = false;  // false if the store is down and the route forwards without it
  bool checked_ = false;  // the conditions were checked and hold
};

}  // namespace once::gateway
