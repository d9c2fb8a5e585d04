#include "gateway/exchange/exchange.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/sometimes.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"
#include "core/outcome.hpp"
#include "core/route_label.hpp"
#include "gateway/exchange/life.hpp"
#include "http/trace_context.hpp"
#include "store/search.hpp"

namespace once::gateway {

namespace {

ClaimEnd settled_as(State state) {
  if (state == State::succeeded) return ClaimEnd::succeeded;
  return state == State::failed ? ClaimEnd::failed : ClaimEnd::unknown;
}

Delivery weighed(const BackendAnswer& answer, const RecordPolicy& policy) {
  if (answer.delivery != Delivery::unframed) return answer.delivery;
  return weigh({.content_type = answer.head->find("Content-Type").value_or(""),
                .body = answer.body,
                .encoded = !same_name(answer.head->find("Content-Encoding").value_or("identity"), "identity"),
                .end_announced = answer.end_announced},
               policy);
}

void answer_unknown(Answers answers, BackendAnswer& answer) {
  if (answer.refused) {
    answers.unknown(answer.refused->status, std::move(answer.refused->detail));
  } else if (answer.delivery == Delivery::timed_out) {
    answers.unknown(504, "The backend did not answer in time; it is unknown whether the request was executed.");
  } else if (answer.fault) {
    answers.unknown(502, "The backend's response is malformed; it is unknown whether the request was executed.");
  } else {
    answers.unknown(502, "The connection to the backend was lost; it is unknown whether the request was executed.");
  }
}

}  // namespace

Exchange::Exchange(const ExchangePorts& ports)
    : ports_(ports),
      claimant_(ports_),
      shared_(ports.store.store().traits().shared == Shared::yes),
      work_(ports.executions),
      lease_(ports.store, ports.home, ports.clock, ports.metrics),
      owner_(owner_wait_ports(ports)) {}

void Exchange::release_memory() {
  std::string().swap(label_);
  for (Fields* scratch : {&for_backend_, &stored_fields_, &unstored_fields_}) scratch->release_memory();
}

Answers Exchange::answers() {
  return {*reply_, request_->policy, request_->request_id, ports_.errors_base};
}

void Exchange::begin(const KeyedRequest& request, Reply& reply) {
  ONCE_ASSERT(request_ == nullptr);  // one request at a time
  request_ = &request;
  reply_ = &reply;
  attempt_ = Attempt{};
  settled_.reset();
  claimant_.charge_to(request.quota);
  ports_.metrics.in_flight.add();
}

void Exchange::end() {
  reply_->attempt = attempt_;
  reply_->settled = settled_;
  op_.tenant = {};  // views into this request
  op_.route = {};
  op_.record.reset();
  op_.outcome.reset();
  op_.chunks.clear();
  reply_outcome_.reset();
  claimant_.charge_to(nullptr);
  ports_.metrics.in_flight.subtract();
  request_ = nullptr;
}

Task<void> Exchange::run(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  owner_.begin(request.policy.wait_limit, may_stream() ? Awaited::end_or_stream : Awaited::end);
  Step step = Step::again;
  bool known_key = false;
  while (step == Step::again) {
    step = Step::answered;
    // The store may have lost the record that shows the mismatch.
    if (shared_ && ports_.executions.has_other(request.id, request.fingerprint)) {
      known_key = true;
      sometimes<"exchange: mismatch with the execution here">();
      answers().mismatch();
      break;
    }
    co_await claim();
    if (op_.status == OpStatus::failed) {
      step = co_await go_without_claim();
      continue;
    }
    known_key = op_.verdict != Verdict::execute;
    // The store does not know the outcome, but this process is still executing the operation.
    const bool unknown = op_.verdict == Verdict::held || op_.verdict == Verdict::too_early;
    if (unknown && ports_.executions.has(op_.id)) {
      sometimes<"exchange: unknown in the store, at work here">();
      op_.verdict = Verdict::in_flight;
    }
    switch (op_.verdict) {
      case Verdict::execute: step = co_await start(); break;
      case Verdict::replay:
        if (op_.record->body_kept == BodyKept::in_chunks) {
          co_await reply_in_chunks(Ending::replayed);
        } else {
          reply_recorded(Ending::replayed);
        }
        break;
      case Verdict::not_kept:
        sometimes<"exchange: body not kept">();
        answers().not_kept();
        break;
      case Verdict::mismatch: answers().mismatch(); break;
      case Verdict::in_flight: step = co_await wait_for_owner(); break;
      case Verdict::too_early:
        answers().too_early(saturating_add(op_.record->started_at, op_.terms.takeover_after), op_.now);
        break;
      case Verdict::held: {
        const Attached attached = co_await attach(Ending::unknown);
        if (attached == Attached::settled) {
          sometimes<"exchange: unknown outcome settled meanwhile">();
          step = Step::again;
        } else if (attached != Attached::yes) {
          answer_unattached(attached);
        }
        break;
      }
      case Verdict::gone:
        sometimes<"exchange: tombstone">();
        answers().expired();
        break;
    }
  }
  reply.known_key = known_key;
  end();
}

// Claims the operation: one atomic step at the store.
Task<void> Exchange::claim() {
  op_.verb = Verb::claim;
  op_.id = request_->id;
  op_.fingerprint = request_->fingerprint;
  op_.terms = terms_of(request_->policy);
  op_.tenant = request_->tenant;
  write_route_label(label_, {.route = request_->route,
                             .method = request_->head.method_text,
                             .path = request_->head.path,
                             .request_id = request_->request_id});
  op_.route = label_;
  op_.holder = request_->holder;
  op_.outcome.reset();
  claimed_ = {.asked = ports_.clock.now()};
  if (request_->life) co_await forget_past_life(claimant_, *request_->life, op_);
  const bool may_claim = !request_->life || op_.status != OpStatus::failed;
  if (may_claim) claimed_ = co_await claimant_.claim(op_);
  if (op_.status == OpStatus::failed) log_refusal();
}

// The claim failed.
Task<Exchange::Step> Exchange::go_without_claim() {
  const Nonce asked = op_.nonce;
  const bool bypasses = request_->policy.store_down == StoreDown::bypass && op_.fault != StoreFault::full;
  auto entered = Executions::Entered::yes;
  if (bypasses) entered = work_.enter_unclaimed(request_->id, request_->fingerprint);
  if (bypasses && entered == Executions::Entered::yes) {
    co_await bypass(asked);
    co_return Step::answered;
  }
  if (claimed_.stands == Stands::perhaps) claimant_.take_back_later(op_);
  sometimes<"exchange: claim failed and may exist">(claimed_.stands == Stands::perhaps);
  sometimes<"exchange: claim failed by a full store">(op_.fault == StoreFault::full);
  if (!bypasses) {
    if (ports_.executions.has(request_->id)) {
      answer_at_work_unseen();
    } else {
      answers().store_fault(op_.fault);
    }
    co_return Step::answered;
  }
  const Step step = co_await answer_at_work(entered);
  co_return step;
}

void Exchange::log_refusal() const {
  const std::string operation = to_hex(prefix_of(op_.id));
  const std::string_view trace = http::trace_id(request_->head);
  if (op_.fault == StoreFault::full) {
    ports_.log.warn(
        "the store is full",
        {{"request", request_->request_id}, {"operation", operation}, {"error", op_.error}, {"trace", trace}});
    return;
  }
  ports_.log.error(
      "claim failed",
      {{"request", request_->request_id}, {"operation", operation}, {"error", op_.error}, {"trace", trace}});
}

// Retries are refused, wait or execute again, so operators need to see this before a client asks.
void Exchange::log_unknown() const {
  ports_.log.warn("outcome unknown", {{"request", request_->request_id},
                                      {"operation", to_hex(prefix_of(op_.id))},
                                      {"method", request_->head.method_text},
                                      {"route", request_->route},
                                      {"trace", http::trace_id(request_->head)}});
}

Task<Exchange::Step> Exchange::wait_for_owner() {
  Attached attached = co_await attach(Ending::attached);
  if (attached == Attached::yes) co_return Step::answered;
  if (attached == Attached::settled && op_.status == OpStatus::done) {
    sometimes<"exchange: the owner ended before the wait">();
    co_return Step::again;
  }
  if (request_->policy.in_flight == InFlight::wait) {
    const WaitEnd end = co_await owner_ends(owner_, ports_, request_->id, request_->presence);
    if (end == WaitEnd::owner_ended) co_return Step::again;
    if (end == WaitEnd::streams) {
      attached = co_await attach(Ending::attached);
      if (attached == Attached::yes) co_return Step::answered;
      // The stream has ended meanwhile.
      sometimes<"exchange: the stream ended before it was attached to">();
      if (attached == Attached::no || attached == Attached::settled) co_return Step::again;
    }
    op_.status = end == WaitEnd::store_failed ? OpStatus::failed : OpStatus::done;
  }
  if (op_.status == OpStatus::failed) {
    answer_at_work_unseen();
  } else {
    answers().in_flight();
  }
  co_return Step::answered;
}

// The store does not answer while this process executes the operation. On a shared store another gateway may have taken
// it over and recorded its outcome.
void Exchange::answer_at_work_unseen() {
  sometimes<"exchange: at work here, store does not answer">();
  if (shared_) {
    answers().store_fault_at_work();
  } else {
    answers().in_flight();
  }
}

// The claim was granted. If this process already executes the operation, that execution gets the claim and this
// request waits for it.
Task<Exchange::Step> Exchange::start() {
  const Executions::Entered entered = co_await claimant_.enter(op_, work_);
  if (entered == Executions::Entered::yes) {
    co_await execute();
    co_return Step::answered;
  }
  const Step step = co_await answer_at_work(entered);
  co_return step;
}

// This process already executes the operation.
Task<Exchange::Step> Exchange::answer_at_work(Executions::Entered entered) {
  if (entered == Executions::Entered::other_request) {
    answers().mismatch();
    co_return Step::answered;
  }
  const Step step = co_await wait_for_owner();
  co_return step;
}

Task<void> Exchange::leave_work() {
  co_await claimant_.leave(op_, work_);
  ports_.waiters.notify(request_->id);
}

// The claim is granted and durable. It ends in one of three ways: finished, released if nothing was sent, or left as
// unknown.
Task<void> Exchange::execute() {
  ONCE_ASSERT(op_.status == OpStatus::done && op_.verdict == Verdict::execute && op_.record.has_value());
  const Record& record = *op_.record;
  attempt_ = record.attempt;
  if (attempt_ > Attempt{1}) {
    RouteMetrics& counts = request_->counts;
    sometimes<"exchange: takeover">(record.previous_state != State::failed);
    (record.previous_state == State::failed ? counts.retries_after_failure : counts.takeovers).add();
  }
  write_fields_for_backend();
  if (shared_) lease_.start(op_, claimed_.held_since, &work_);
  const BackendRequest sent = to_backend(shared_ ? &lease_ : nullptr);
  const Duration sent_at = ports_.clock.running();
  BackendAnswer answer = co_await request_->backend.send(sent);
  note_fault(answer);
  if (replies_before_end(answer)) {
    co_await record_stream(answer, sent_at);
    // closes the connection unless the response is complete: another request may execute from now on
    answer.source.reset();
  } else {
    co_await lease_.stop();
    co_await settle_answer(answer);
  }
  co_await leave_work();
}

BackendRequest Exchange::to_backend(const SendPermit* permit) const {
  return {.head = request_->head,
          .body = request_->body,
          .added_fields = for_backend_.view(),
          .timeouts = request_->policy.timeouts,
          .max_response_body = request_->policy.record.max_body,
          .interim = request_->interim,
          .strip_prefix = request_->strip_prefix,
          .origin = request_->origin,
          .room = ports_.memory,
          .permit = permit,
          .use = request_->use,
          .streams_by = may_stream() ? &request_->policy.record : nullptr,
          .large_body = request_->large_body,
          .keeper = request_->keeper};
}

// The claim was released, or another owner has it.
void Exchange::answer_released(BackendAnswer& answer, OpStatus undone) {
  if (is_answered(answer.delivery)) {
    reply_with(answer, Ending::executed);
  } else if (answer.refused) {
    answers().refused(*std::move(answer.refused));
  } else if (undone == OpStatus::lost) {
    sometimes<"exchange: not sent, and taken over">();
    answers().in_flight();  // nothing was sent, and another owner has the claim
  } else if (undone == OpStatus::failed && shared_ && !lease_.may_send()) {
    sometimes<"exchange: not sent, because the lease was not renewed">();
    answers().store_fault(StoreFault::unavailable);  // nothing was sent: the lease was not renewed in time
  } else {
    answer_unsent(answer.delivery, Ending::rejected);
  }
}

void Exchange::note_fault(const BackendAnswer& answer) {
  if (!answer.fault) return;
  ports_.metrics.malformed_responses[static_cast<std::size_t>(*answer.fault)].add();
  ports_.log.warn("malformed response", {{"request", request_->request_id},
                                         {"operation", to_hex(prefix_of(request_->id))},
                                         {"reason", name_of(*answer.fault)}});
}

// After split_response_fields(), which reads the backend's Idempotency-Policy.
Settlement Exchange::settlement_of(const BackendAnswer& answer) const {
  const RecordPolicy& policy = request_->policy.record;
  return settle(weighed(answer, policy), answer.head->status, backend_policy_, policy);
}

// Records what happened at the backend, then replies.
Task<void> Exchange::settle_answer(BackendAnswer& answer) {
  const bool answered = is_answered(answer.delivery);
  OutcomeBytes outcome;
  backend_policy_ = {};
  if (answered) {
    split_response_fields(*answer.head);
    outcome = encode_answer(answer);
    reply_outcome_ = counted(outcome);
  }
  const Settlement settlement =
      answered ? settlement_of(answer) : settle(answer.delivery, 0, backend_policy_, request_->policy.record);
  // The outcome holds the whole response: free the source, so that no second copy is held while it is recorded.
  if (answer.delivery != Delivery::oversize) answer.source.reset();
  switch (settlement.kind) {
    case Settlement::Kind::release: co_await settle_released(answer); break;
    case Settlement::Kind::succeed:
    case Settlement::Kind::fail: co_await settle_recorded(answer, settlement, std::move(outcome)); break;
    case Settlement::Kind::unknown: co_await settle_unknown(answer); break;
  }
}

Task<void> Exchange::settle_released(BackendAnswer& answer) {
  const OpStatus undone = co_await release();
  sometimes<"exchange: a refusal by the backend frees the key">(is_answered(answer.delivery) &&
                                                                undone == OpStatus::done);
  sometimes<"exchange: release failed">(undone == OpStatus::failed);
  if (undone == OpStatus::lost) {
    sometimes<"exchange: release refused as lost">();
    const Committed committed = co_await reply_as_committed();
    if (committed == Committed::yes) co_return;
  }
  answer_released(answer, undone);
}

Task<void> Exchange::settle_recorded(BackendAnswer& answer, Settlement settlement, OutcomeBytes outcome) {
  const bool succeeded = settlement.kind == Settlement::Kind::succeed;
  const State state = succeeded ? State::succeeded : State::failed;
  const OutcomeBytes kept = succeeded ? outcome : OutcomeBytes();
  const OpStatus recorded = co_await record(state, settlement.body_kept, kept);
  sometimes<"exchange: response too large to be kept">(settlement.body_kept == BodyKept::no);
  if (recorded == OpStatus::lost) {
    sometimes<"exchange: outcome refused as lost">();
    const Committed committed = co_await reply_as_committed();
    if (committed == Committed::yes) co_return;
  }
  if (recorded == OpStatus::done && another_outcome_stands(op_)) {
    sometimes<"exchange: the backend committed another outcome">();
    ports_.metrics.committed_by_backend.add();
    co_await reply_as_recorded(Ending::executed);
  } else if (recorded == OpStatus::done) {
    reply_with(answer, Ending::executed);
  } else {
    sometimes<"exchange: outcome not recorded">(recorded == OpStatus::failed);
    sometimes<"exchange: outcome of an overtaken attempt">(recorded == OpStatus::lost);
    answers().unknown(503, recorded == OpStatus::lost
                               ? "Another attempt took over this operation before its outcome could be recorded."
                               : "The backend answered, but its response could not be recorded.");
  }
}

Task<void> Exchange::settle_unknown(BackendAnswer& answer) {
  const OpStatus recorded = co_await record(State::unknown, BodyKept::yes, OutcomeBytes());
  sometimes<"exchange: response passed on as unknown">(is_answered(answer.delivery));
  if (recorded == OpStatus::lost) {
    sometimes<"exchange: unknown refused as lost">();
    const Committed committed = co_await reply_as_committed();
    if (committed == Committed::yes) co_return;
  }
  if (is_answered(answer.delivery)) {
    reply_with(answer, Ending::unknown);
  } else {
    answer_unknown(answers(), answer);
  }
}

void Exchange::answer_unsent(Delivery delivery, Ending ending) {
  if (delivery == Delivery::busy) {
    answers().upstream_busy(ending);
  } else {
    answers().not_reached(ending);
  }
}

// Retries while the claim may still be valid: the outcome is known, and losing it would be the worst failure.
Task<OpStatus> Exchange::record(State state, BodyKept kept, OutcomeBytes outcome) {
  ONCE_ASSERT(state == State::succeeded || state == State::failed || state == State::unknown);
  ONCE_ASSERT((state == State::succeeded) == (outcome != nullptr));
  ONCE_ASSERT(state == State::succeeded || kept == BodyKept::yes);
  op_.verb = Verb::finish;
  op_.final_state = state;
  op_.body_kept = kept;
  op_.outcome = std::move(outcome);
  co_await end_claim();
  if (op_.status == OpStatus::lost && kept != BodyKept::in_chunks) {
    const NewerClaim newer = co_await claimant_.claim_anew(op_, work_);
    sometimes<"exchange: recorded under a newer claim">(newer == NewerClaim::taken);
    if (newer == NewerClaim::taken) co_await end_claim();
  }
  if (op_.status == OpStatus::done) {
    count(another_outcome_stands(op_) ? ClaimEnd::succeeded : settled_as(state));
    if (settled_ == ClaimEnd::unknown) log_unknown();
  }
  if (op_.status == OpStatus::failed) {
    count(ClaimEnd::unrecorded);
    ports_.log.error("outcome not recorded", {{"request", request_->request_id},
                                              {"operation", to_hex(prefix_of(op_.id))},
                                              {"error", op_.error},
                                              {"trace", http::trace_id(request_->head)}});
    // In a shared store the outcome becomes unknown when the lease ends, so no retry is needed.
    if (!shared_) end_later(reply_outcome_);
  }
  co_return op_.status;
}

// The ttl depends on the final state. The other terms stay those of the claim.
Task<void> Exchange::end_claim() {
  const Duration claimed = std::exchange(op_.terms.ttl, ttl_of(op_.final_state));
  // Chunks belong to one claim: a newer claim of this execution has none.
  const Executions::Entry* const work = op_.body_kept == BodyKept::in_chunks ? nullptr : &work_;
  co_await claimant_.end(op_, request_->policy.lease, work);
  op_.terms.ttl = claimed;
}

void Exchange::end_later(OutcomeBytes kept_alive) {
  Op end = op_;
  end.terms.ttl = ttl_of(end.final_state);
  claimant_.end_later(std::move(end), Stands::yes, std::move(kept_alive));
}

// How long to keep a record that ends in this state.
Duration Exchange::ttl_of(State state) const {
  const Policy& policy = request_->policy;
  Duration ttl = state == State::unknown ? terms_of(policy).ttl : policy.ttl;
  if (state == State::succeeded && backend_policy_.ttl) ttl = *backend_policy_.ttl;
  if (!request_->life) return ttl;
  const Duration since = ports_.clock.now() - claimed_.asked;
  return std::min(ttl, longest_ttl_of_life(policy, since));
}

Task<Committed> Exchange::reply_as_committed() {
  const Committed committed = co_await claimant_.find_committed(op_);
  switch (committed) {
    case Committed::yes:
      count(ClaimEnd::succeeded);
      ports_.metrics.committed_by_backend.add();
      co_await reply_as_recorded(Ending::executed);
      break;
    case Committed::no:
      count(ClaimEnd::lost);
      ports_.metrics.claims_lost.add();
      break;
  }
  co_return committed;
}

// Undoes the claim. A release that fails is retried in the background while the client gets its reply.
Task<OpStatus> Exchange::release() {
  op_.verb = Verb::release;
  co_await claimant_.end_soon(op_, &work_);
  if (op_.status != OpStatus::lost) count(ClaimEnd::released);
  co_return op_.status;
}

void Exchange::write_fields_for_backend() {
  const Record& record = *op_.record;
  for_backend_.clear();
  for_backend_.add("X-Request-Id", request_->request_id);
  for_backend_.add("Idempotency-Attempt", static_cast<std::uint32_t>(record.attempt));
  for_backend_.add("Idempotency-Fence", static_cast<std::uint64_t>(record.fence));
  std::string& claim = for_backend_.begin_value("Idempotency-Claim");
  append_hex(claim, op_.id.view());
  claim.push_back('.');
  append_hex(claim, op_.nonce.view());
  for_backend_.end_value();
}

}  // namespace once::gateway
