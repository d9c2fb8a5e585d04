// Claims as held by the host program. The other side is a call on the gate's loop, which waits until the holder ends or
// drops the claim.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <once/gate.hpp>
#include <once/outcome.hpp>

#include "gate/completion.hpp"
#include "gate/response.hpp"

namespace once::gate {

class Core;
class HttpCall;
class WorkCall;

// What a holder may know about its claim.
struct ClaimFacts {
  unsigned attempt = 0;  // 0: unprotected
  std::uint64_t fence = 0;
  std::string token;       // the value of Idempotency-Claim; empty: unprotected
  std::string operation;   // the operation id in hex
  std::string request_id;  // for a request
  std::vector<Field> fields;
  std::size_t max_body = 0;
};

// Whether another attempt may own the claim now; set by the loop, read by any thread.
using LostFlag = std::shared_ptr<std::atomic<bool>>;

enum class Ask : std::uint8_t {
  taken,
  ended,    // the claim had already ended
  stopped,  // the gate has ended
  forked,   // the claim belongs to the parent process
};

// The result of a begin: the request passes unprotected.
struct Pass {
  std::vector<Field> fields;
  std::string request_id;
};
using BeginResult = std::variant<Cancelled, Reply, std::shared_ptr<HeldRequest>, Pass>;
using FinishResult = std::variant<Cancelled, Reply>;

// The claim of a request.
struct HeldRequest {
  HeldRequest(std::shared_ptr<Core> the_core, HttpCall& the_call, ClaimFacts the_facts, LostFlag the_lost);
  HeldRequest(const HeldRequest&) = delete;
  HeldRequest& operator=(const HeldRequest&) = delete;
  // The claim ends as dropped if its holder has not ended it.
  ~HeldRequest();

  Ask finish(std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then);
  Ask abandon(Completion<FinishResult> then);
  Ask release(Completion<FinishResult> then);

  // Whether this is the process that claimed, not a forked child of it.
  bool is_here() const;

  const ClaimFacts facts;
  const LostFlag lost;

 private:
  enum class How : std::uint8_t { answered, unknown, not_done };
  Ask end(How how, std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then);

  const std::shared_ptr<Core> core_;
  HttpCall* const call_;  // used on the loop's thread; alive until the claim has ended
  std::atomic<bool> ended_ = false;
};

// The claim of work that is not a request.
struct HeldWork;
struct WorkOutcome : guard::Outcome<std::string> {
  bool absent = false;  // for a lookup: there is no such work
};
using ClaimResultOfWork = std::variant<Cancelled, std::shared_ptr<HeldWork>, WorkOutcome>;
using WorkResult = std::variant<Cancelled, WorkOutcome>;

struct WorkOrder {
  enum class Kind : std::uint8_t { complete, fail, release, recorded, drop };
  Kind kind = Kind::drop;
  std::string value;
  std::string media_type;
  Completion<WorkResult> then;
};

struct HeldWork {
  HeldWork(std::shared_ptr<Core> the_core, WorkCall& the_call, ClaimFacts the_facts, LostFlag the_lost);
  HeldWork(const HeldWork&) = delete;
  HeldWork& operator=(const HeldWork&) = delete;
  ~HeldWork();

  // An order on a claim that has ended is answered with its result.
  Ask order(WorkOrder order);
  bool is_here() const;

  const ClaimFacts facts;
  const LostFlag lost;

 private:
  const std::shared_ptr<Core> core_;
  WorkCall* const call_;  // used on the loop's thread; alive until it is dropped
};

}  // namespace once::gate
