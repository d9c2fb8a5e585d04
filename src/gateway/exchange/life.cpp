#include "gateway/exchange/life.hpp"

#include <algorithm>

#include "gateway/exchange/answers.hpp"
#include "http/trace_context.hpp"

namespace once::gateway {

namespace {

// Stores count milliseconds. A claim made after the client got its reply must have a later time than the marker.
constexpr Duration next_tick = std::chrono::milliseconds(2);
constexpr Duration shortest_life_ttl = std::chrono::seconds(1);

}  // namespace

Duration longest_ttl_of_life(const Policy& policy, Duration since_claim) {
  // Recording may take up to a lease.
  const Duration taken = std::max(since_claim, Duration::zero()) + policy.lease + policy.tombstone;
  return std::max(policy.life.remembered - taken, shortest_life_ttl);
}

Task<void> forget_past_life(Claimant& claimant, const OperationId& marker, Op& claim) {
  Op end;
  end.id = marker;
  co_await claimant.ask(end);
  claim.status = end.status;
  if (end.status == OpStatus::failed) {
    answer_failed(claim, end.fault, end.error);
    co_return;
  }
  if (!end.record) co_return;
  Op known;
  known.id = claim.id;
  co_await claimant.ask(known);
  if (known.status == OpStatus::failed) {
    answer_failed(claim, known.fault, known.error);
    co_return;
  }
  if (!known.record || known.record->started_at > end.record->started_at) co_return;
  // The record's owner may still be executing, or another request was faster: the claim that follows finds out.
  Op past;
  past.verb = Verb::forget;
  past.id = claim.id;
  past.nonce = known.record->nonce;
  past.seen_state = known.record->state;
  co_await claimant.ask(past);
  if (past.status == OpStatus::failed) answer_failed(claim, past.fault, past.error);
}

void LifeEnd::log_failure(const Op& op) const {
  ports_.log.error("end of life not recorded",
                   {{"request", request_id_}, {"error", op.error}, {"trace", http::trace_id(head_)}});
}

Task<std::optional<Problem>> LifeEnd::begin() {
  if (policy_.store_down == StoreDown::bypass) co_return std::nullopt;
  Op probe;
  probe.id = marker_;
  co_await claimant_.ask(probe);
  if (probe.status != OpStatus::failed) co_return std::nullopt;
  log_failure(probe);
  Problem down = problem(ProblemKind::store_unavailable, "The store does not answer; nothing was executed.");
  down.retry_after_seconds = retry_soon_seconds;
  co_return down;
}

Task<std::optional<Problem>> LifeEnd::answered(int status) {
  if (status < 200 || status >= 300) co_return std::nullopt;
  const Marked marked = co_await mark();
  if (marked == Marked::yes || policy_.store_down == StoreDown::bypass) co_return std::nullopt;
  Problem half = problem(ProblemKind::outcome_unknown,
                         "The backend executed the request, but the end of this resource's keys could not be "
                         "recorded.");
  half.status = 503;
  half.retryable = Retryable::no;
  co_return half;
}

// Marks the end with a claim whose lease ends at once, so that the next end need not wait for it.
Task<LifeEnd::Marked> LifeEnd::mark() {
  Op op;
  op.verb = Verb::claim;
  op.id = marker_;
  op.route = "(life)";               // what operators see; no route pattern looks like this
  op.nonce = ports_.random.nonce();  // the same nonce for all tries: if an answer is lost, its claim is still valid
  op.terms = {.on_unknown = OnUnknown::retry,
              .takeover_after = Duration::zero(),
              .lease = Duration::zero(),
              .ttl = policy_.life.remembered,
              .owner = Owner::outside};
  const Duration patience = policy_.store_down == StoreDown::bypass ? Duration::zero() : policy_.lease;
  co_await claimant_.end(op, patience);
  if (op.status == OpStatus::done && op.verdict != Verdict::execute) op.error = "another request holds the marker";
  if (op.status != OpStatus::done || op.verdict != Verdict::execute) {
    log_failure(op);
    co_return Marked::no;
  }
  co_await sleep_for(ports_.home, next_tick);
  // Finish it, so that operators do not see it as executing. If that fails, the marker is still valid.
  op.verb = Verb::finish;
  op.final_state = State::failed;
  co_await claimant_.end(op, Duration::zero());
  co_return Marked::yes;
}

}  // namespace once::gateway
