// Conditional requests for backends that have none: what a response to GET is tagged by, and the guard that a write
// with If-Match or If-None-Match goes through. docs/conditional.md says what holds.
//
// A write is checked and forwarded while its resource is claimed in the store, so that of two writers that name the
// same state only one finds it, at whatever gateway. The claim belongs to the resource and to no caller or key.
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
#include "gateway/exchange/exchange.hpp"
#include "gateway/exchange/lease_keeper.hpp"
#include "gateway/exchange/owner_wait.hpp"
#include "http/head.hpp"
#include "http/loop.hpp"
#include "http/upstream.hpp"
#include "store/store.hpp"

namespace once::gateway {

// A header that makes another method of the request at backends that heed it.
bool overrides_method(std::string_view name);

// Whether the response to this GET may be given an ETag.
bool tags_response(const Policy& policy, const http::RequestHead& head);
// Whether this write goes through the guard, conditions or none.
inline bool guards_write(const Policy& policy, Method method) {
  return policy.conditional.if_match != IfMatch::off && policy.mode == Mode::enforce &&
         (method == Method::put || method == Method::patch || method == Method::delete_);
}

// What a GET that may be tagged asks for.
struct Tagging {
  const ConditionalPolicy& policy;
  TagList none_match;
};

// Takes out of the request what would make more than one form of the representation.
Tagging begin_tagging(const ConditionalPolicy& policy, http::RequestHead& head);

// Whether this response is to be held until its tag is known.
bool may_be_tagged(const ConditionalPolicy& policy, const http::ResponseHead& head);
std::string etag_of(const http::ResponseHead& head, std::string_view body);
// Says something of the body that a 304 does not have.
bool describes_body(std::string_view name);

struct GuardedWrite {
  const Policy& policy;
  Backend& backend;
  const http::RequestHead& head;
  std::string_view request_id;
  std::string_view resource;  // its path in normal form: other spellings of it must not let two writers in
  std::string_view strip_prefix = {};
  const Origin* origin = nullptr;
  Presence* presence = nullptr;  // of its client, while it waits; null: taken to be there
};

// What is known of a write when it is over.
enum class WriteEnd : std::uint8_t {
  known,    // its whole response came, or nothing was sent
  unknown,  // it may still have its effect
};

// After a whole response.
WriteEnd end_of_write(int status, const Policy& policy);
// Reads the rest of a response whose client has left. True: it came whole. Nobody gets it, so it does not have for
// ever.
Task<bool> drain(http::ResponseSource& rest, const Timeouts& timeouts, const http::Loop& loop);

// The guard let the write in, and lost the resource before it could be sent.
Problem not_held();

class WriteGuard {
 public:
  WriteGuard(const ExchangePorts& ports, const OperationIds& ids)
      : ports_(ports),
        claimant_(ports_),
        ids_(ids),
        work_(ports.executions),
        lease_(ports.store, ports.home, ports.clock, ports.metrics),
        owner_(ports_) {}

  // Waits for the writer before, claims the resource, and holds its state against the conditions. A problem: the write
  // must not be sent, and nothing is held. Otherwise leave() follows.
  Task<std::optional<Problem>> enter(const GuardedWrite& write);
  // Conditions that were checked here are not for the backend to see: it does not know our tags. One that has tags of
  // its own gets them as they came, and decides.
  bool strips_conditions() const { return strips_conditions_; }

  // Unknown: the claim is left to lapse with its lease, so that the next writer reads the resource only then.
  Task<void> leave(WriteEnd end);
  // Asked before the first byte of the write. Null: there is no claim.
  const SendPermit* permit() const { return claimed_ ? &lease_ : nullptr; }
  bool entered() const { return entered_; }
  // Another write was at work, and was waited for.
  bool waited() const { return owner_.waited(); }

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

  ExchangePorts ports_;
  ExchangeClaimant claimant_;
  const OperationIds& ids_;
  const GuardedWrite* write_ = nullptr;
  Precondition precondition_;
  Op op_;
  Executions::Entry work_;
  LeaseKeeper lease_;
  ClaimResult asked_;  // what is known of the claim
  OwnerWait owner_;
  std::string added_;  // fields for the backend
  bool entered_ = false;
  bool claimed_ = false;  // not so when the store is down and the route prefers that to nothing
  bool strips_conditions_ = false;
};

// The fields of a write less its conditions.
void strip_conditions(http::RequestHead& head);

// The guard around the backend of a keyed request: the key comes first, so a replay is not checked, and what the guard
// refuses was not executed.
class GuardedBackend final : public Backend {
 public:
  GuardedBackend(Backend& backend, WriteGuard& guard, const Policy& policy, std::string_view request_id,
                 std::string_view resource)
      : backend_(backend), guard_(guard), policy_(policy), request_id_(request_id), resource_(resource) {}

  // After an oversize answer the guard is still entered: whoever reads the rest of it leaves.
  Task<BackendAnswer> send(const BackendRequest& request) override;

 private:
  Backend& backend_;
  WriteGuard& guard_;
  const Policy& policy_;
  std::string_view request_id_;
  std::string_view resource_;
};

}  // namespace once::gateway
