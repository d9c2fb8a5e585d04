// The claims API: what the gateway does for HTTP requests, for any other work, such as jobs, queue consumers and paid
// API calls. A client claims an operation, does the work, and reports the result. Other clients can wait for it, and
// get the value later. docs/guides/claims.md describes the protocol, docs/reference/openapi.json specifies it.
//
// It has its own address and thread. It uses the same store as the gateway, with ids that no request can have.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/task.hpp"
#include "claims/answers.hpp"
#include "claims/identity.hpp"
#include "claims/metrics.hpp"
#include "claims/progress.hpp"
#include "claims/requests.hpp"
#include "claims/settings.hpp"
#include "gateway/gateway.hpp"
#include "http/service.hpp"
#include "store/claimant.hpp"
#include "store/lane.hpp"
#include "store/owner_wait.hpp"

namespace once::claims {

struct ClaimsPorts {
  Lanes& store;
  Waiters& waiters;
  const Log& log;
  ClaimsMetrics& metrics;
  Gateway& gateway;  // shares its memory limit and counters
};

class Claims final : public http::ServiceHandler, private ClaimantHost {
 public:
  Claims(const ClaimsSettings& settings, std::string_view secret, std::string errors_base, const ClaimsPorts& ports);
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;
  ~Claims() { stop(); }

  // `inherited`: a socket that is already listening.
  Result<void> start(const std::vector<int>& inherited = {}) { return thread_.start(settings_.listen, inherited); }
  const std::string& address() const { return thread_.address(); }
  int listening() const { return thread_.listening(); }
  // Call if another process listens on the same Unix socket, so that its file is not removed.
  void hand_over() { thread_.hand_over(); }
  http::Loop& loop() { return thread_.loop(); }

  // Accepts no more connections, and answers long polls with the current state. begin_stop() does not wait for the end.
  void stop();
  void begin_stop();
  bool ended() const { return thread_.ended(); }

 private:
  // A request and its tenant.
  struct Call {
    const http::ServiceRequest& request;
    std::string_view tenant;
  };
  // The parsed path.
  struct Route {
    ClaimsVerb verb = ClaimsVerb::other;
    std::string_view allow;   // the allowed methods; empty: unknown path
    std::string_view handle;  // of the claim, for verbs of its owner
  };
  static Route route_of(const http::RequestHead& head);

  http::Admission admit(const http::ServiceRequest& request) override;
  Task<http::ServiceResponse> handle(const http::ServiceRequest& request) override;
  http::ServiceResponse refuse(http::Refused what, std::string_view why) override;
  void connected() override { ports_.metrics.connections_open.add(); }
  void disconnected() override { ports_.metrics.connections_open.subtract(); }
  void displaced() override { ports_.metrics.connections_displaced.add(); }
  Reserved take_memory(std::size_t bytes) override { return ports_.gateway.take_memory(HeldFor::request, bytes); }
  void give_back_memory(std::size_t bytes) override { ports_.gateway.give_back_memory(HeldFor::request, bytes); }
  // A large response counts against the memory limit until the client has read it.
  Reserved hold(std::size_t bytes, std::shared_ptr<const void>& held);

  // The refusal of a request because of its head.
  std::optional<ClaimsAnswer> refused(const http::RequestHead& head, const Route& route) const;
  Task<ClaimsAnswer> answer(const http::ServiceRequest& request, Route route);
  Task<ClaimsAnswer> claim(Call call);
  Task<ClaimsAnswer> lookup(Call call);
  Task<ClaimsAnswer> follow(Call call);
  Task<ClaimsAnswer> renew(Call call, ClaimHandle handle);
  Task<ClaimsAnswer> progress(Call call, ClaimHandle handle);
  Task<ClaimsAnswer> succeed(Call call, ClaimHandle handle);
  Task<ClaimsAnswer> fail(Call call, ClaimHandle handle);
  Task<ClaimsAnswer> release(Call call, ClaimHandle handle);

  void store_failed(const Op& op) override;
  void retries(const Op& /*op*/) override {}
  // Does nothing: a claim has a lease chosen by the client and lapses with it.
  void end_in_background(Op /*end*/, Stands /*claim*/, std::shared_ptr<const void> /*kept_alive*/) override {}

  Task<void> finish(Op& op);
  OwnerWait owner_wait(Duration limit);
  // Whether another client may wait; otherwise counts the refusal.
  bool may_wait();
  Task<WaitEnd> wait_for_owner(OwnerWait& owner, OperationId id, const bool& client_left, Op& seen);
  void count_acquired(const Op& claim, ScopeMetrics& of_scope);

  ClaimsSettings settings_;
  ClaimsPorts ports_;
  ClaimsAnswers answers_;
  Tenants tenants_;
  Identities identities_;
  SystemRandom random_;
  SystemClock clock_;
  std::atomic<bool> stopping_ = false;
  http::ServiceThread thread_;
  Claimant claimant_;  // used on that thread
  Progress progress_;
};

// docs/reference/openapi.json
std::string_view openapi_document();

}  // namespace once::claims
