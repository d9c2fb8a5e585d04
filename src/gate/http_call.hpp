// One request: identified as by the gateway, then processed by the gateway's exchange with the program's handler as the
// backend.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <once/gate.hpp>

#include "base/event.hpp"
#include "base/task.hpp"
#include "gate/call.hpp"
#include "gate/request_head.hpp"
#include "gate/response.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/identity/identify.hpp"
#include "gateway/identity/tenant_memo.hpp"
#include "gateway/limits/key_quota.hpp"

namespace once::gate {

class Engine;

class HttpCall final : public Call, public Backend {
 public:
  HttpCall(Engine& engine, Request request, std::uint64_t tag, Completion<BeginResult> then);

  Task<void> run() override;

  // How the holder ended the claim; called once.
  enum class End : std::uint8_t {
    answered,
    unknown,   // the handler ended without a response
    not_done,  // nothing was done
    dropped,   // the holder dropped the claim
  };
  void end(End how, std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then);

 private:
  Task<BackendAnswer> send(const BackendRequest& request) override;
  // Enforces the caller's limits, then runs the exchange.
  Task<void> answer_keyed(const std::optional<Key>& key);
  KeyedRequest keyed_request(const RequestIdentity& identity, const OperationId& operation);
  void hand_out(const BackendRequest& request);
  BackendAnswer answer_of_handler();

  void refuse(Problem answer);
  void refuse_limit(const CallerTable::Refusal& refusal);
  void pass(const RequestKey& key);
  void complete_call();
  void account(gateway::Ending ending, int status);

  IdentityRules rules() const;
  RequestFacts facts();

  Engine& engine_;
  RequestText text_;
  const std::chrono::nanoseconds began_;
  Origin origin_;
  std::string request_id_;
  std::string path_;  // a buffer
  RoutedPolicy route_;
  const Wording* wording_;
  TenantMemo tenant_;
  std::string operation_;  // the operation id in hex
  Exchange exchange_;
  gateway::Reply reply_;
  LossWatch loss_;

  Completion<BeginResult> begun_;      // pending until a claim is handed out, or there is none
  Completion<FinishResult> finished_;  // pending after that
  Event ended_;
  End how_ = End::dropped;
  std::unique_ptr<PreparedResponse> response_;
};

}  // namespace once::gate
