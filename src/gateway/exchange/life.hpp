// Keys that belong to one life of the resource that their path names (`scope: [path, life]`), and die with it:
// docs/design/0013-lives.md.
//
// The end of a life is a record of its own in the store, the marker of the resource. What was claimed no later than the
// marker is of a life that is over; the record of such a key is forgotten when its key comes again.
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

// For how long the outcome of a key of a life may be kept that was claimed so long ago: the marker that ends its life
// may be as old as its claim, and must not be forgotten before it. Whoever asks for longer, the backend too, gets this.
Duration longest_ttl_of_life(const Policy& policy, Duration since_claim);

// Before a claim of a key of that resource: drops what is known of the key from a life that is over. The claim's status
// is failed if the store did not answer.
Task<void> forget_past_life(Claimant& claimant, const OperationId& marker, Op& claim);

// Of one request that ends a life.
class LifeEnd {
 public:
  LifeEnd(const ExchangePorts& ports, const Policy& policy, const OperationId& marker, const http::RequestHead& head,
          std::string_view request_id)
      : ports_(ports), claimant_(ports), policy_(policy), marker_(marker), head_(head), request_id_(request_id) {}

  // A store that is down already would be too late to find out about when the resource is gone. A problem: the request
  // is not to be sent.
  Task<std::optional<Problem>> begin();
  // The head of the response is here and nobody has been told. A problem: what to tell instead.
  Task<std::optional<Problem>> answered(int status);

 private:
  Task<bool> mark();
  void log_failure(const Op& op) const;

  const ExchangePorts& ports_;
  ExchangeClaimant claimant_;
  const Policy& policy_;
  const OperationId marker_;
  const http::RequestHead& head_;
  const std::string_view request_id_;
};

}  // namespace once::gateway
