// The store contract. A store is a small blocking class that executes batches; one batch is one round trip, one
// transaction or one fsync, and each operation in it is one atomic step. Requests never call it: they hand an Op to
// a lane (lane.hpp) and await it. tests/store/contract.hpp is the suite that every store passes.
//
// What every store promises:
// - Durable before reported: when execute() returns, the results it reports survive the failures that traits() names.
// - Every write except the first carries the nonce. A write with another nonce than the record's changes nothing and
//   answers `lost`. So does every write except forget to an expired record. An expired record that is still remembered
//   is reported as a tombstone (age() in core/decision.hpp); a forgotten one as no record.
// - Operators' writes follow the same rule: they carry the nonce and state of the record that the operator saw, and
//   change nothing while it has a running owner. So exactly one wins among an operator, a client that takes over and an
//   owner that comes back.
// - Every verb may be repeated after a lost or indeterminate answer: a claim with the same nonce is the same claim
//   (same attempt, fence and lease), a repeated finish is done, a repeated release, forget or resolve is lost.
// - A copy of a claim that arrives late changes nothing, because it would have no owner: one that arrives after the
//   claim has ended (it gets in_flight), and in a shared store one that arrives after its call has timed out by the
//   store's clock. Shared stores remember a released first claim for a minute.
// - Chunks belong to the claim that appended them. They are read while its record still has its nonce and is started,
//   unknown, or succeeded with its body in chunks; from then on they are gone, because the record has the whole
//   outcome, or another attempt has begun. Nothing is appended to a record that is not started, so a finish freezes
//   them. They expire with their record. An owner appends one chunk at a time and numbers them from 0; a repeated
//   append is done and adds nothing.
// - Fences of one operation only grow, even across a release or an expiry that leaves no record. A store that forgets
//   records takes fences from a counter or from its clock.
// - A batch never has the same id twice; the lanes ensure that. Several threads may execute batches at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "core/decision.hpp"
#include "core/operation.hpp"
#include "core/record.hpp"
#include "store/report.hpp"

namespace once::store {

enum class Verb : std::uint8_t {
  claim,    // decide, and become the owner if the verdict is execute
  renew,    // the owner is still executing: extends the lease, even one that lapsed, if there was no takeover
  finish,   // the owner records the end: succeeded, failed or unknown; after unknown, it may record a later result
  release,  // the owner undoes the claim: nothing reached the backend
  forget,   // an operator deletes the record, unless it has a running owner
  resolve,  // an operator records an unknown or abandoned operation as succeeded or failed
  lookup,   // read only
  append,   // the owner adds the next chunk of a response that is still streaming
  read,     // lookup, and the chunks appended so far
};

enum class OpStatus : std::uint8_t {
  done,
  lost,    // every write except claim: the record is gone or has changed; nothing was written
  failed,  // the store could not do it, or the result is unknown: see `error`
};

enum class StoreFault : std::uint8_t {
  unavailable,  // down, timed out or broken; the result is unknown
  refused,      // unavailable, but certainly nothing was changed
  full,         // a limit of the store is reached; nothing was changed
  no_chunks,    // append: earlier chunks are missing; nothing was changed
};

enum class Waits : std::uint8_t { no, yes };

struct Op {
  Verb verb = Verb::lookup;
  OperationId id{};
  Nonce nonce{};              // every write: the nonce of the record that was seen
  Fingerprint fingerprint{};  // claim only
  ClaimTerms terms{};  // claim: all of it; renew: lease and owner; finish, resolve: ttl, the tombstone is the claim's

  // claim: labels for operators: the caller, and the route with the request (core/route_label.hpp). Other writes may
  // repeat them, so that the store need not look them up. Views of data that outlives the op; never a raw key or a
  // credential.
  std::string_view tenant{};
  std::string_view route{};
  // claim: the holder of the record, for a store that evicts: a proven caller, or an address.
  TenantTag holder{};

  // lookup, read: a request waits for the end or the next chunk. A store that can notify other gateways registers it.
  Waits waits = Waits::no;

  // finish, resolve. body_kept says where the body of a succeeded outcome is; in chunks for a finish only. A store
  // without room may drop the body of a finish, and says so in the record. A resolve is written completely or refused.
  State final_state = State::succeeded;
  State seen_state = State::unknown;  // resolve, forget: a record in any other state is not changed
  BodyKept body_kept = BodyKept::yes;
  OutcomeBytes outcome{};  // append: the chunk

  std::uint32_t chunk = 0;      // append: the number of chunks before this one; read: the first chunk wanted
  std::size_t chunk_bytes = 0;  // read: stop before the chunk that would exceed this, except the first one

  // Results.
  OpStatus status = OpStatus::failed;
  Verdict verdict = Verdict::held;  // claim; the default executes nothing
  // claim: the record as it now stands (the caller's own if the verdict is execute; of a mismatch perhaps without its
  // outcome). lookup, read: what was found, if anything. finish and resolve that are done: started_at and expires_at at
  // least; and if the same was recorded before, by this owner or by the backend in its name, the outcome that stands.
  std::optional<Record> record{};
  std::vector<OutcomeBytes> chunks{};  // read
  Time now{};                          // the store's clock at the decision
  StoreFault fault = StoreFault::unavailable;
  std::string error{};  // for logs
};

// Whether this verb writes an outcome.
inline bool writes_outcome(Verb verb) {
  return verb == Verb::finish || verb == Verb::resolve;
}

// Whether ops of this verb carry bytes in Op::outcome.
inline bool brings_bytes(Verb verb) {
  return writes_outcome(verb) || verb == Verb::append;
}

// Whether a record in this state can have chunks.
inline bool may_have_chunks(State state, BodyKept kept) {
  return state == State::started || state == State::unknown ||
         (state == State::succeeded && kept == BodyKept::in_chunks);
}
inline bool may_have_chunks(const Record& record) {
  return may_have_chunks(record.state, record.body_kept);
}

// Fills in the answer of a store that could not execute the op.
inline void answer_failed(Op& op, StoreFault fault, std::string_view why) {
  op.status = OpStatus::failed;
  op.record.reset();
  op.chunks.clear();
  op.fault = fault;
  op.error = why;
}

// A record, or a part of it, that a full store removed before it expired.
struct Evicted {
  enum class Left : std::uint8_t {
    nothing,
    record,  // the record, without the beginning of a response whose end is unknown
  };

  const OperationId& id;
  TenantTag holder;         // of the claim
  std::string_view tenant;  //
  std::size_t bytes;        // of the outcome and the chunks
  Time expires_at;
  Time now;  // by the store's clock
  Left left;
};

enum class Durable : std::uint8_t { no, yes };
enum class Shared : std::uint8_t { no, yes };

struct Traits {
  Durable durable = Durable::no;  // survives a restart of the gateway
  Shared shared = Shared::no;     // other gateways use it too: claims need leases, and its clock decides
  // The caller's thread executes its own op; for stores that never block.
  bool inline_execution = false;
  bool evicts = false;         // it removes records when it is full (Op::holder, notify_of_evictions())
  Duration reclaims_within{};  // how long replaced, removed and expired records may still take space
};

class Exclusive;
class Search;

class Store {
 public:
  virtual ~Store() = default;
  virtual void execute(std::span<Op* const> batch) = 0;
  // The same with a deadline (monotonic_now()) for all answers.
  virtual void execute_until(std::chrono::nanoseconds /*until*/, std::span<Op* const> batch) { execute(batch); }
  // The longest time that a call may take.
  virtual Duration time_limit() const { return Duration::max(); }
  // Parts of a store fail independently, such as the nodes of a cluster. Each part has its own lanes, so that a part
  // that hangs delays only its own operations. Thread-safe; the answer may change.
  virtual std::size_t part_of(const OperationId& /*id*/) const { return 0; }
  // Thread-safe. Answers the op if that needs neither a wait nor a change; otherwise call execute().
  virtual bool answer_at_once(Op& /*op*/) { return false; }
  // `notify` is called when another gateway ends, or appends to, an operation that a request of this process waits for
  // (Waits): on a thread of the store, perhaps late, twice or never. Call this once, before the first batch. A store
  // that is not shared never notifies.
  virtual void notify_of_ends(std::function<void(const OperationId&)> /*notify*/) {}
  // A store that evicts reports it: `notify` is called on any thread, and must not call the store. Call this once,
  // before the first batch.
  virtual void notify_of_evictions(std::function<void(const Evicted&)> /*notify*/) {}
  virtual Traits traits() const = 0;
  // Thread-safe. Whether nothing can be written until a restart, so that retrying is pointless.
  virtual bool failed_for_good() const { return false; }
  // For operators (search.hpp). Null: it cannot be searched.
  virtual Search* search() { return nullptr; }
  // For operators (report.hpp): condition and counters. Thread-safe.
  virtual StoreCondition condition() const { return StoreCondition::well; }
  virtual StoreReport report() const { return {}; }
  // For a store that only one process can open (exclusive.hpp), else null.
  virtual Exclusive* exclusive() { return nullptr; }
};

// A driver's edge: if the store throws, every op of the batch has failed. `until` as for execute_until().
void execute_caught(Store& store, std::span<Op* const> batch,
                    std::optional<std::chrono::nanoseconds> until = std::nullopt);

}  // namespace once::store
