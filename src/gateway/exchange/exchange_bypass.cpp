// Requests that are forwarded without a claim: the store is down, and the route prefers that to a refusal.
#include <utility>

#include "gateway/exchange/exchange.hpp"

namespace once::gateway {

// The store is down and the route forwards requests unprotected instead of refusing them. If another request was given
// the claim by the time the answer is here, the answer is recorded under that claim. The claim `asked` for may have
// been made although the store did not confirm it, so it is ended in the background.
Task<void> Exchange::bypass(Nonce asked) {
  for_backend_.clear();
  for_backend_.add("X-Request-Id", request_->request_id);
  BackendRequest sent = to_backend(nullptr);
  sent.streams_by = nullptr;
  if (shared_) lease_.start_unclaimed(op_, work_);
  const Duration sent_at = ports_.clock.running();
  BackendAnswer answer = co_await request_->backend.send(sent);
  note_fault(answer);
  if (replies_before_end(answer)) {
    co_await relay_bypassed(answer, sent_at, asked);
    answer.source.reset();
    co_await leave_work();
    co_return;
  }
  co_await lease_.stop();
  const Verb verb = was_sent(answer.delivery) ? Verb::finish : Verb::release;
  const bool uncertain = claimed_.stands == Stands::perhaps;
  if (take_handed(op_, &work_) == NewerClaim::taken) {
    co_await settle_answer(answer);
    if (uncertain) claimant_.end_later(end_of(op_, verb, asked), Stands::perhaps);
  } else {
    if (is_answered(answer.delivery)) {
      backend_policy_ = {};
      split_response_fields(*answer.head);
      OutcomeBytes outcome = encode_answer(answer);
      reply_outcome_ = counted(outcome);
      if (uncertain) end_bypassed(settlement_of(answer), std::move(outcome), asked);
    } else if (uncertain) {
      claimant_.end_later(end_of(op_, verb, asked), Stands::perhaps);
    }
    reply_bypassed(answer);
  }
  co_await leave_work();
}

// The claim was granted without this process knowing it, but only this request can have executed under it: its
// response is the outcome.
void Exchange::end_bypassed(const Settlement& settlement, OutcomeBytes outcome, const Nonce& asked) {
  Op end = end_of(op_, settlement.kind == Settlement::Kind::release ? Verb::release : Verb::finish, asked);
  end.final_state = settlement.kind == Settlement::Kind::succeed ? State::succeeded
                    : settlement.kind == Settlement::Kind::fail  ? State::failed
                                                                 : State::unknown;
  end.body_kept = settlement.body_kept;
  if (end.final_state == State::succeeded) {
    end.outcome = std::move(outcome);
  }
  end.terms.ttl = ttl_of(end.final_state);
  claimant_.end_later(std::move(end), Stands::perhaps, reply_outcome_);
}

void Exchange::reply_bypassed(BackendAnswer& answer) {
  switch (answer.delivery) {
    case Delivery::whole:
    case Delivery::unframed:
    case Delivery::oversize:
    case Delivery::streaming:
      op_.record.reset();
      reply_with(answer, Ending::bypassed);
      break;
    case Delivery::not_sent:
    case Delivery::busy:
      if (answer.refused) {
        answers().refused(*std::move(answer.refused));
      } else {
        answer_unsent(answer.delivery, Ending::bypassed);
      }
      break;
    case Delivery::timed_out:
      answers().problem(ProblemKind::gateway_timeout, "The backend did not answer in time.", Ending::bypassed);
      break;
    case Delivery::lost:
    case Delivery::truncated:
      answers().problem(
          ProblemKind::backend_lost,
          answer.fault ? "The backend's response is malformed." : "The connection to the backend was lost.",
          Ending::bypassed);
      break;
  }
}

}  // namespace once::gateway
