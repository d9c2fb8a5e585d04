#include "gateway/limits/key_quota.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

namespace {

// The size of a key in the store without its outcome: two records of the journal, each with the labels.
constexpr std::size_t bytes_of_record = 384;
// The overhead of a chunk in the store: in the journal its frame, padding and the mark of its write.
constexpr std::size_t bytes_of_chunk = 112;
// The most bytes that stopped_outcome() adds to the head of a response.
constexpr std::size_t most_that_a_stop_adds = 64;

std::string describe(CallerLimit limit) {
  switch (limit) {
    case CallerLimit::in_flight: return "This caller has reached its limit of concurrent requests. Retry later.";
    case CallerLimit::new_keys: return "This caller has reached its limit of new keys per second. Retry later.";
    case CallerLimit::stored_bytes: return "This caller has used up its quota of stored responses. Retry later.";
    case CallerLimit::address_new_keys:
      return "This address has reached its limit of new keys per second. Retry later.";
    case CallerLimit::address_stored_bytes:
      return "This address has used up its quota of stored responses. Retry later.";
  }
  return "";
}

}  // namespace

void QuotaTables::evicted(const Evicted& what, std::chrono::nanoseconds running) {
  const std::chrono::nanoseconds until = running + (what.expires_at - what.now);
  TenantTag caller = anonymous;
  if (what.tenant.size() == caller.size()) std::ranges::copy(what.tenant, caller.begin());
  sometimes<"quota: an evicted response is given back">();
  callers.removed(caller, {.bytes = what.bytes, .until = until}, running);
  const std::size_t record = what.left == Evicted::Left::nothing ? bytes_of_record : 0;
  networks.removed(what.holder, {.bytes = what.bytes + record, .until = until}, running);
}

void follow_store(Store& store, const std::shared_ptr<QuotaTables>& tables, const Clock& clock) {
  tables->reclaimed_within = store.traits().reclaims_within;
  store.notify_of_evictions([tables, &clock](const Evicted& what) { tables->evicted(what, clock.running()); });
}

bool KeyQuota::begin(const TenantTag& caller) {
  caller_ = CallerUse(tables_.callers, caller, limits_.caller, clock_.running());
  return static_cast<bool>(caller_);
}

std::optional<CallerTable::Refusal> KeyQuota::take_key() {
  const std::chrono::nanoseconds now = clock_.running();
  std::optional<CallerTable::Refusal> refusal;
  if (caller_) refusal = caller_.take_key(limits_.caller, now);
  if (refusal || !network_) return refusal;
  refusal = tables_.networks.take_key(*network_, limits_.address, now);
  network_counted_ = !refusal;
  if (!refusal) return std::nullopt;
  const bool bytes = refusal->limit == CallerLimit::stored_bytes;
  sometimes<"quota: a new key of an address is refused">();
  refusal->limit = bytes ? CallerLimit::address_stored_bytes : CallerLimit::address_new_keys;
  if (caller_) caller_.give_back_key(limits_.caller);
  return refusal;
}

void KeyQuota::answered(const Op& op) {
  if (!is_limited()) return;
  if (op.status == OpStatus::failed && op.fault == StoreFault::unavailable) may_be_done(op);
  if (op.status == OpStatus::lost) may_be_stopped(op);
  if (op.status != OpStatus::done) return;
  switch (op.verb) {
    case Verb::claim:
      if (op.verdict == Verdict::execute) claimed(op);
      break;
    case Verb::append:
      if (is_own(op)) appended(op);
      break;
    case Verb::finish: ended(op); break;
    case Verb::release:
      if (is_own(op) && op.nonce == nonce_) count({}, life_);
      break;
    case Verb::lookup:
    case Verb::read:
      if (is_own(op)) seen(op);
      break;
    case Verb::renew:
    case Verb::forget:
    case Verb::resolve: break;
  }
}

void KeyQuota::claimed(const Op& op) {
  if (is_own(op) && op.nonce == nonce_) return;
  claimed_ = true;
  id_ = op.id;
  nonce_ = op.nonce;
  next_chunk_ = 0;
  // The record of a later attempt was charged to the caller of the first one.
  const bool is_new = op.record && op.record->attempt == Attempt{1};
  count({.record = is_new ? bytes_of_record + 2 * (op.tenant.size() + op.route.size()) : 0}, op.terms.ttl);
}

void KeyQuota::follow(const Nonce& nonce) {
  if (nonce == nonce_) return;
  nonce_ = nonce;
  next_chunk_ = 0;
  leave(std::exchange(kept_.chunks, 0));
}

// Chunks may be appended again after the store has lost some.
void KeyQuota::appended(const Op& op) {
  follow(op.nonce);
  if (op.chunk < next_chunk_) return;
  next_chunk_ = op.chunk + 1;
  if (op.chunk == 0) head_ = op.outcome->size();
  Kept kept = kept_;
  kept.chunks += op.outcome->size() + bytes_of_chunk;
  count(kept, life_);
}

bool KeyQuota::has_room_for(const Op& op) {
  if (op.verb != Verb::append || op.outcome->empty()) return true;
  const std::chrono::nanoseconds now = clock_.running();
  if (caller_ && !caller_.has_room(limits_.caller, now)) return false;
  return !network_ || tables_.networks.has_room(*network_, limits_.address, now);
}

// The reply was lost: charge what may be stored until the store reports more.
void KeyQuota::may_be_done(const Op& op) {
  if (!is_own(op)) return;
  sometimes<"quota: charged for a write without an answer">();
  if (op.verb == Verb::append) appended(op);
  if (op.verb == Verb::finish && op.outcome) {
    Kept kept = kept_;
    kept.outcome = op.outcome->size();
    count(kept, op.terms.ttl);
  }
}

// The caller may have stopped the stream at another gateway; then the head is recorded besides the chunks. Charge it
// until the store reports more.
void KeyQuota::may_be_stopped(const Op& op) {
  if (!is_own(op) || op.nonce != nonce_ || kept_.chunks == 0) return;
  sometimes<"quota: a stop may have been recorded">();
  Kept kept = kept_;
  kept.outcome = std::max(kept.outcome, head_ + most_that_a_stop_adds);
  count(kept, life_);
}

// The caller may still stop a stream whose outcome is unknown; then its head is recorded besides the chunks.
std::size_t KeyQuota::most_of_outcome(State state, const OutcomeBytes& outcome, std::size_t chunks) const {
  const std::size_t size = outcome ? outcome->size() : 0;
  const bool may_be_stopped = state == State::unknown && chunks > 0;
  return may_be_stopped ? std::max(size, head_ + most_that_a_stop_adds) : size;
}

// Also counts a claim that was made by another request and handed to this one.
void KeyQuota::ended(const Op& op) {
  claimed_ = true;
  id_ = op.id;
  follow(op.nonce);
  BodyKept body = op.body_kept;
  OutcomeBytes outcome = op.outcome;
  if (op.record && (another_outcome_stands(op) || op.record->body_kept == BodyKept::no)) {
    body = op.record->body_kept;
    outcome = op.record->outcome;
  }
  const std::size_t chunks = may_have_chunks(op.final_state, body) ? kept_.chunks : 0;
  count({.record = kept_.record, .chunks = chunks, .outcome = most_of_outcome(op.final_state, outcome, chunks)},
        op.terms.ttl);
}

// Charges what the store has now for a claim that was lost.
void KeyQuota::seen(const Op& op) {
  if (!op.record) {
    count({}, life_);
  } else if (op.record->nonce != nonce_) {
    count({.record = kept_.record}, life_);
  } else {
    const OutcomeBytes& outcome = op.record->outcome;
    const std::size_t chunks = may_have_chunks(*op.record) ? kept_.chunks : 0;
    // Another gateway may have ended it, with its own ttl.
    const Duration life = std::max(op.record->expires_at - op.now, Duration::zero());
    count({.record = kept_.record, .chunks = chunks, .outcome = most_of_outcome(op.record->state, outcome, chunks)},
          life);
  }
}

void KeyQuota::ends_later(const Op& op) {
  if (is_limited() && op.verb == Verb::finish) ended(op);
}

void KeyQuota::leave(std::size_t bytes) {
  const Duration life = tables_.reclaimed_within;
  if (network_ && bytes > 0 && life > Duration::zero()) {
    tables_.networks.left(*network_, limits_.address, bytes, life, clock_.running());
  }
}

void KeyQuota::count(const Kept& kept, Duration life) {
  leave(kept_.chunks - std::min(kept.chunks, kept_.chunks));
  kept_ = kept;
  life_ = life;
  const std::chrono::nanoseconds now = clock_.running();
  if (caller_) {
    const StoredBytes is{.bytes = kept.chunks + kept.outcome, .until = now + life};
    if (is.bytes + caller_bytes_.bytes > 0) caller_.stored(limits_.caller, caller_bytes_, is, now);
    caller_bytes_ = is;
  }
  if (network_) {
    const StoredBytes is{.bytes = kept.record + kept.chunks + kept.outcome, .until = now + life};
    if (is.bytes + network_bytes_.bytes > 0) {
      tables_.networks.stored(*network_, limits_.address, network_bytes_, is, now);
    }
    network_bytes_ = is;
  }
}

void KeyQuota::settle(const Reply& reply) {
  const bool of_another = reply.ending == Ending::replayed || reply.ending == Ending::attached ||
                          reply.ending == Ending::in_flight || reply.ending == Ending::mismatch;
  const bool known = reply.known_key || of_another || reply.attempt > Attempt{1};
  sometimes<"quota: the key of a retry is given back">(caller_ && known);
  if (caller_ && known) caller_.give_back_key(limits_.caller);
  // Only give back what was taken: retries over the limit must not make room for new keys.
  if (network_ && known && network_counted_) tables_.networks.give_back_key(*network_, limits_.address);
  // Its claim was handed to another request, which counts it.
  if (of_another && std::exchange(kept_, {}) != Kept()) {
    sometimes<"quota: the claim was handed to another request">();
    count({}, life_);
  }
}

// The limit is for new keys only. Over it, ask the store whether this key exists.
Task<std::optional<CallerTable::Refusal>> refuse_new_key(KeyQuota& quota, const OperationId& operation, Lanes& store,
                                                         Executor& home) {
  const auto refusal = quota.take_key();
  if (!refusal) co_return std::nullopt;
  Op known;
  known.id = operation;
  co_await store.run(known, home);
  sometimes<"quota: a known key passes over the limit">(known.status == OpStatus::done && known.record);
  // If the store does not answer, the request itself will report that.
  if (known.status != OpStatus::done || known.record) co_return std::nullopt;
  co_return refusal;
}

Problem limit_problem(const CallerTable::Refusal& refusal) {
  Problem answer = problem(ProblemKind::caller_limit, describe(refusal.limit));
  answer.retry_after_seconds = refusal.retry_after_seconds;
  return answer;
}

}  // namespace once::gateway
