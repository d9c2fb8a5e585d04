// Shadow mode: requests pass through unprotected, while Once records what it would have done. The records have ids of
// their own, so a switch to enforce starts clean.
//
// The request never waits for this: a slow, full or unavailable store costs a verdict, not a response.
#pragma once

#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/executor.hpp"
#include "base/task.hpp"
#include "core/outcome.hpp"
#include "core/problem.hpp"
#include "gateway/access_line.hpp"
#include "gateway/exchange/exchange_claimant.hpp"
#include "gateway/exchange/exchange_ports.hpp"
#include "gateway/exchange/lease_keeper.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/routes.hpp"
#include "gateway/limits/usage.hpp"
#include "gateway/metrics.hpp"
#include "gateway/passthrough/passthrough.hpp"
#include "gateway/worker.hpp"

namespace once::gateway {

// Shadows one request, and may outlive it until its claim has ended.
class Shadow final : public PassObserver, public std::enable_shared_from_this<Shadow> {
 public:
  // The head is used until end().
  Shadow(Worker& worker, GenerationUse generation, const RoutedPolicy& routed, const http::RequestHead& head,
         std::string_view request_id);

  // begin() is called before the request passes, end() afterwards, with the problem if Once answered it.
  void begin(RequestKey key, const IdentityRules& rules, const RequestFacts& facts);
  void end(std::optional<ProblemKind> problem);

  void body_part(std::string_view data) override;
  void body_ended() override;
  void answered(const http::ResponseHead& head) override;

  // Writes the request's access log line: now if the verdict is known, otherwise as soon as it is.
  void account(const AccessLine& line);

 private:
  // The result at the backend.
  struct Answer {
    Delivery delivery{};
    int status = 0;
    bool unframed = false;
    BackendPolicy policy;
    Event known;
  };

  static Task<void> keep_books(std::shared_ptr<Shadow> self);
  Task<void> claim_and_finish();
  // Ends the claim according to the backend's answer.
  void settle_claim();
  void decide(Shadowed verdict);

  Worker& worker_;
  GatewayShared& shared_;
  GenerationUse generation_;
  const Policy& policy_;
  const std::string_view route_;
  const http::RequestHead& head_;
  const std::string request_id_;
  std::optional<RequestIdentity> identity_;  // valid while the head is
  std::optional<Key> key_;                   // absent: derived from the body
  HeldBody body_;
  std::optional<Shadowed> verdict_;
  bool claiming_ = false;
  Op op_;
  TenantTag tenant_{};
  const ExchangePorts ports_;
  ExchangeClaimant claimant_;
  LeaseKeeper lease_;
  Answer answer_;
  std::optional<AccessLine> line_;  // waits for the verdict
  std::string method_;              // storage for the line's strings
  std::string path_;
  std::string trace_;
  std::string client_;
};

}  // namespace once::gateway
