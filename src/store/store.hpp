// The store contract. A store is a small blocking class that executes batches; one batch is one round trip, one
// transaction or one fsync, and each operation in it is one atomic step. Requests never call it: they hand an Op to
// a lane (lane.hpp) and await it. tests/store/contract.hpp is the suite that every store passes.
//
// What every store promises:
// - Durable before told: when execute() returns, what an op reports as done survives what traits() says it survives.
// - Every write but the first carries the nonce. A write whose nonce is no longer the record's changes nothing and
//   answers `lost`.
// - A claim repeated with the same nonce is the same claim, so a claim whose answer was lost may be sent again.
// - A batch never holds one id twice; the lanes see to that.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "core/decision.hpp"
#include "core/record.hpp"

namespace once {

enum class Verb : std::uint8_t {
  claim,    // decide, and if the verdict is execute, become the owner
  renew,    // the owner is still at work: the lease begins anew
  finish,   // the owner records how it ended: succeeded, failed or unknown
  release,  // the owner takes the claim back, as if never made: nothing reached the backend
  lookup,   // read only
};

enum class OpStatus : std::uint8_t {
  done,
  lost,    // renew, finish, release: the record is gone or belongs to another nonce; nothing was changed
  failed,  // the store could not do it, or does not know whether it did: see `error`
};

enum class StoreFault : std::uint8_t {
  unavailable,  // down, timed out or broken
  full,         // a limit of the store is reached; nothing was changed
};

struct Op {
  Verb verb = Verb::lookup;
  OperationId id;
  Nonce nonce;              // claim, renew, finish, release
  Fingerprint fingerprint;  // claim
  ClaimTerms terms;         // claim: all of it; renew: lease; finish: ttl

  // finish. A succeeded outcome with no body kept says so in body_kept.
  State final_state = State::succeeded;
  BodyKept body_kept = BodyKept::yes;
  OutcomeBytes outcome;

  // Results.
  OpStatus status = OpStatus::failed;
  Verdict verdict = Verdict::execute;  // claim
  // claim: the record as it now stands (the caller's own if the verdict is execute). lookup: what was found, if
  // anything. finish: times only are filled in.
  std::optional<Record> record;
  Time now;  // the store's clock when it decided
  StoreFault fault = StoreFault::unavailable;
  std::string error;  // for logs
};

enum class Durable : std::uint8_t { no, yes };
enum class Shared : std::uint8_t { no, yes };

struct Traits {
  Durable durable = Durable::no;  // survives a restart of the gateway
  Shared shared = Shared::no;     // other gateways use it too: leases are needed, and its clock decides
  // The caller's thread executes its own op: for stores that never block.
  bool inline_execution = false;
};

class Store {
 public:
  virtual ~Store() = default;
  virtual void execute(std::span<Op* const> batch) = 0;
  virtual Traits traits() const = 0;
};

}  // namespace once
