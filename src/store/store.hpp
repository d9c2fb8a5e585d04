// The store contract. A store is a small blocking class that executes batches; one batch is one round trip, one
// transaction or one fsync, and each operation in it is one atomic step. Requests never call it: they hand an Op to
// a lane (lane.hpp) and await it. tests/store/contract.hpp is the suite that every store passes.
//
// What every store promises:
// - Durable before told: when execute() returns, what an op reports as done survives what traits() says it survives.
// - Every write but the first carries the nonce. A write whose nonce is no longer the record's changes nothing and
//   answers `lost`, and so does every write but forget to an expired record. One that is
//   not yet forgotten is a tombstone, and told as one (age() in core/decision.hpp); a forgotten one is as none.
// - What operators write is a write like any other: it carries nonce and state of the record that was seen, and changes
//   nothing while the owner is at work. So of an operator and a client that takes over at the same time, or an owner
//   that comes back, exactly one wins.
// - Every verb may be sent again after an answer that was lost or indeterminate: a claim with the same nonce is the
//   same claim (same attempt, fence and lease), a finish that was already made is done, a release,
//   forget or resolve already made is lost.
// - A copy of a claim that comes after the claim has ended (in flight), or to a shared store after its call is over, by
//   that store's clock, changes nothing: nobody would own it. Shared stores note a released first claim for a minute.
// - Fences of one operation only grow, also over a release or an expiry after which no record is left. A store that
//   forgets records takes them from a counter or a clock of its own.
// - A batch never holds one id twice; the lanes see to that. Several threads may execute batches at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "core/decision.hpp"
#include "core/record.hpp"
#include "store/report.hpp"

namespace once::store {

enum class Verb : std::uint8_t {
  claim,    // decide, and if the verdict is execute, become the owner
  renew,    // the owner is still at work: the lease begins anew, also a lapsed one that nobody took over
  finish,   // the owner records how it ended: succeeded, failed or unknown; after unknown it may still learn more
  release,  // the owner takes the claim back, as if never made: nothing reached the backend
  forget,   // an operator drops the record, whoever's it is, unless its owner is at work
  resolve,  // an operator records how it ended: what is unknown, or was left by its owner, succeeded or failed
  lookup,   // read only
};

enum class OpStatus : std::uint8_t {
  done,
  lost,    // every write but claim: the record is gone or not what was seen; nothing was changed
  failed,  // the store could not do it, or does not know whether it did: see `error`
};

enum class StoreFault : std::uint8_t {
  unavailable,  // down, timed out or broken; whether it was done is not known
  refused,      // the same, but nothing was changed for certain
  full,         // a limit of the store is reached; nothing was changed
};

enum class Waits : std::uint8_t { no, yes };

struct Op {
  Verb verb = Verb::lookup;
  OperationId id{};
  Nonce nonce{};              // every write: the one of the record that was seen
  Fingerprint fingerprint{};  // claim
  ClaimTerms terms{};  // claim: all of it; renew: lease and owner; finish, resolve: ttl, the tombstone is the claim's

  // claim: what operators find it by. Any other write may say the same again, so that the store need not look it up.
  // Views of what lives as long as the op; never a raw key or a credential.
  std::string_view tenant{};
  std::string_view route{};

  // lookup: somebody waits for this operation to end. A store that can tell other gateways notes it in the record.
  Waits waits = Waits::no;

  // finish, resolve. A succeeded outcome with no body kept says so in body_kept. A store may leave out the body of a
  // finish that it has no room for, and says so in the record; a resolve has all of it or is refused.
  State final_state = State::succeeded;
  State seen_state = State::unknown;  // resolve, forget: a record in another one is not changed
  BodyKept body_kept = BodyKept::yes;
  OutcomeBytes outcome{};

  // Results.
  OpStatus status = OpStatus::failed;
  Verdict verdict = Verdict::held;  // claim; nobody executes what no store has decided
  // claim: the record as it now stands (the caller's own if the verdict is execute; of a mismatch perhaps without its
  // outcome). lookup: what was found, if anything. finish and resolve that are done: started_at and expires_at at
  // least; and if the same was recorded before, by this owner or by the backend in its name, the outcome that stands.
  std::optional<Record> record{};
  Time now{};  // the store's clock when it decided
  StoreFault fault = StoreFault::unavailable;
  std::string error{};  // for logs
};

// Whether this verb brings an outcome with it.
inline bool writes_outcome(Verb verb) {
  return verb == Verb::finish || verb == Verb::resolve;
}

// The answer of a store that could not do it.
inline void answer_failed(Op& op, StoreFault fault, std::string_view why) {
  op.status = OpStatus::failed;
  op.record.reset();
  op.fault = fault;
  op.error = why;
}

enum class Durable : std::uint8_t { no, yes };
enum class Shared : std::uint8_t { no, yes };

struct Traits {
  Durable durable = Durable::no;  // survives a restart of the gateway
  Shared shared = Shared::no;     // other gateways use it too: leases are needed, and its clock decides
  // The caller's thread executes its own op: for stores that never block.
  bool inline_execution = false;
};

class Exclusive;
class Search;

class Store {
 public:
  virtual ~Store() = default;
  virtual void execute(std::span<Op* const> batch) = 0;
  // The same for a store that may have to wait: every op is answered by then (monotonic_now()), whatever is tried.
  virtual void execute_until(std::chrono::nanoseconds /*until*/, std::span<Op* const> batch) { execute(batch); }
  // How long one call of it may take.
  virtual Duration time_limit() const { return Duration::max(); }
  // Parts of a store fail apart, as the nodes of a cluster do. Each has lanes of its own, so that one that hangs stops
  // nobody else's operations. Any thread may ask, and the answer may change.
  virtual std::size_t part_of(const OperationId& /*id*/) const { return 0; }
  // Any thread may ask. Fills in the answer if that takes no waiting and changes nothing; false: execute() it.
  virtual bool answer_at_once(Op& /*op*/) { return false; }
  // Operations that somebody here waits for (Waits) and that another gateway has ended: `told` is called on a thread of
  // the store's, perhaps late, perhaps twice, perhaps never. Called once, before the first batch. A store that is not
  // shared has nothing to tell.
  virtual void tell_ends(std::function<void(const OperationId&)> /*told*/) {}
  virtual Traits traits() const = 0;
  // Any thread may ask. True: nothing will be written until a restart, so what failed is not worth trying again.
  virtual bool failed_for_good() const { return false; }
  // For operators (search.hpp). Null: it cannot be searched.
  virtual Search* search() { return nullptr; }
  // For operators (report.hpp), as any thread may ask: how it is, and what it counts.
  virtual StoreCondition condition() const { return StoreCondition::well; }
  virtual StoreReport report() const { return {}; }
  // A store that only one process can have (exclusive.hpp). Null: it is not one.
  virtual Exclusive* exclusive() { return nullptr; }
};

// A driver's edge: if the store throws, every op of the batch has failed. `until` as for execute_until().
void execute_caught(Store& store, std::span<Op* const> batch,
                    std::optional<std::chrono::nanoseconds> until = std::nullopt);

}  // namespace once::store
