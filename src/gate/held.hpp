// Claims as the program around the gate holds them. The other side is a call on the gate's loop, which waits until its
// holder says how it ended, or lets it go.
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

// What a holder may know of its claim.
struct ClaimFacts {
  unsigned attempt = 0;  // 0: not protected
  std::uint64_t fence = 0;
  std::string token;       // Idempotency-Claim; empty: not protected
  std::string operation;   // hexadecimal
  std::string request_id;  // of a request
  std::vector<Field> fields;
  std::size_t max_body = 0;
};

// May be another attempt's by now; told by the loop, read by any thread.
using LostFlag = std::shared_ptr<std::atomic<bool>>;

enum class Ask : std::uint8_t {
  taken,
  ended,    // the claim was ended before
  stopped,  // the gate is gone
  forked,   // the claim belongs to the process before the fork
};

// What a begin comes to.
struct Pass {
  std::vector<Field> fields;
  std::string request_id;
};
using BeginResult = std::variant<Cancelled, Reply, std::shared_ptr<HeldRequest>, Pass>;
using FinishResult = std::variant<Cancelled, Reply>;

// Of a request.
struct HeldRequest {
  HeldRequest(std::shared_ptr<Core> the_core, HttpCall& the_call, ClaimFacts the_facts, LostFlag the_lost);
  HeldRequest(const HeldRequest&) = delete;
  HeldRequest& operator=(const HeldRequest&) = delete;
  // Not ended: dropped.
  ~HeldRequest();

  Ask finish(std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then);
  Ask abandon(Completion<FinishResult> then);
  Ask release(Completion<FinishResult> then);

  // False: a forked child has it, and the claim is its parent's.
  bool is_here() const;

  const ClaimFacts facts;
  const LostFlag lost;

 private:
  enum class How : std::uint8_t { answered, unknown, not_done };
  Ask end(How how, std::unique_ptr<PreparedResponse> response, Completion<FinishResult> then);

  const std::shared_ptr<Core> core_;
  HttpCall* const call_;  // of the loop's thread, alive until the claim has ended
  std::atomic<bool> ended_ = false;
};

// Of work that is not a request.
struct HeldWork;
struct WorkOutcome : guard::Outcome<std::string> {
  bool absent = false;  // of a look: there is no such work
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

  // An order on a claim that has ended is answered from what became of it.
  Ask order(WorkOrder order);
  bool is_here() const;

  const ClaimFacts facts;
  const LostFlag lost;

 private:
  const std::shared_ptr<Core> core_;
  WorkCall* const call_;  // of the loop's thread, alive until it is dropped
};

}  // namespace once::gate
