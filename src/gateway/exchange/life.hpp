// Keys that belong to one life of the resource that their path names (`scope: [path, life]`), and end with it:
// docs/design/0013-lives.md.
//
// The end of a life is a record of its own in the store, the marker of the resource. Keys claimed no later than the
// marker belong to a life that is over; the record of such a key is deleted when the key is used again.
#pragma once

#include <optional>
#include <string_view>

#include "base/task.hpp"
#include "core/operation.hpp"
#include "core/policy.hpp"
#include "core/problem.hpp"
#include "gateway/exchange/backend.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/identity/life_marker.hpp"
#include "http/head.hpp"
#include "store/store.hpp"

namespace once::gateway {

// The longest ttl for the outcome of a key of a life, `since_claim` after its claim. The marker may be as old as the
// claim and must outlive the outcome. Longer ttls, also those that the backend asks for, are cut to this.
Duration longest_ttl_of_life(const Policy& policy, Duration since_claim);

// Call before claiming a key of that resource: deletes its record if it belongs to a life that is over. Sets the
// claim's status to failed if the store did not answer.
Task<void> forget_past_life(Claimant& claimant, const OperationId& marker, Op& claim);

// One request that ends a life.
class LifeEnd {
 public:
  LifeEnd(const ExchangePorts& ports, const Policy& policy, const OperationId& marker, const http::RequestHead& head,
          std::string_view request_id)
      : ports_(ports), claimant_(ports), policy_(policy), marker_(marker), head_(head), request_id_(request_id) {}

  // Checks the store before the request is sent: after the backend has deleted the resource it is too late. A problem:
  // do not send the request.
  Task<std::optional<Problem>> begin();
  // Call when the head of the response is here and nothing was sent to the client. A problem: send it instead.
  Task<std::optional<Problem>> answered(int status);

 private:
  enum class Marked : std::uint8_t { no, yes };
  Task<Marked> mark();
  void log_failure(const Op& op) const;

  const ExchangePorts& ports_;
  ExchangeClaimant claimant_;
  const Policy& policy_;
  const OperationId marker_;
  const http::RequestHead& head_;
  const std::string_view request_id_;
};

}  // namespace once::gateway
