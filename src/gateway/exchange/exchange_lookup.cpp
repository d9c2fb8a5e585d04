// What is recorded for a key, for a client that lost its response and does not want to send the request again.
#include "gateway/exchange/exchange.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

Task<void> Exchange::look_up(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  op_.verb = Verb::read;
  op_.id = request.id;
  op_.chunk = 0;
  op_.chunk_bytes = 0;
  co_await claimant_.ask(op_);
  if (op_.status == OpStatus::failed) {
    log_refusal();
    answers().store_fault(op_.fault);
  } else if (!op_.record) {
    answers().not_found(
        "No request with this key has arrived with this caller, host, method and path, or its record has expired.");
  } else {
    co_await reply_looked_up();
  }
  reply.known_key = true;  // it is charged to nobody
  end();
}

Task<bool> Exchange::replay_recorded(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  op_.verb = Verb::read;
  op_.id = request.id;
  op_.chunk = 0;
  op_.chunk_bytes = 0;
  co_await claimant_.ask(op_);
  const bool known = op_.status != OpStatus::failed && op_.record.has_value() && op_.record->outcome != nullptr;
  const bool replayable = known && op_.record->state == State::succeeded && op_.record->body_kept != BodyKept::no;
  if (replayable) co_await reply_looked_up();
  reply.known_key = replayable;
  end();
  co_return replayable;
}

Task<void> Exchange::reply_looked_up() {
  switch (op_.record->state) {
    case State::succeeded:
      if (op_.record->body_kept != BodyKept::no && op_.record->outcome) {
        co_await reply_as_recorded(Ending::replayed);
      } else {
        answers().not_kept();
      }
      break;
    case State::failed:
      answers().not_found("The last attempt of this operation failed. Sending the request again executes it again.");
      break;
    case State::tombstone: answers().expired(); break;
    case State::started:
    case State::unknown: {
      const bool works = owner_works(op_) || ports_.executions.has(op_.id);
      const Attached attached = co_await attach(works ? Ending::attached : Ending::unknown);
      if (attached == Attached::yes) break;
      if (works) {
        answers().in_flight();
      } else {
        answer_unattached(attached);
      }
      break;
    }
  }
}

}  // namespace once::gateway
