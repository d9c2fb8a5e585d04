// Lookup: the recorded outcome of a key, for a client that lost the response and does not want to resend the request.
#include "base/sometimes.hpp"
#include "core/large_fingerprint.hpp"
#include "core/outcome.hpp"
#include "gateway/exchange/exchange.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

Task<void> Exchange::look_up(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  Step step = Step::again;
  while (step == Step::again) {
    step = Step::answered;
    co_await read_record();
    if (op_.status == OpStatus::failed) {
      log_refusal();
      answers().store_fault(op_.fault);
    } else if (!op_.record) {
      co_await reply_without_record();
    } else {
      step = co_await reply_looked_up();
    }
  }
  reply.known_key = true;  // a lookup is charged to no quota
  end();
}

Task<void> Exchange::read_record() {
  op_.verb = Verb::read;
  op_.id = request_->id;
  op_.chunk = 0;
  op_.chunk_bytes = 0;
  co_await claimant_.ask(op_);
}

Task<HeadMatch> Exchange::compare_unread(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  co_await read_record();
  const bool known = op_.status != OpStatus::failed && op_.record && op_.record->state == State::succeeded;
  const auto recorded = known && op_.record->outcome ? decode(*op_.record->outcome) : std::nullopt;
  const bool differs = recorded && differs_from(recorded->large_body, request.head.framing.length,
                                                request.head.find("Content-Digest").value_or(""));
  if (differs) answers().mismatch();
  reply.known_key = differs;
  end();
  co_return differs ? HeadMatch::mismatch : HeadMatch::possible;
}

// The store may have lost the record of an operation that this process is still executing.
Task<void> Exchange::reply_without_record() {
  if (!ports_.executions.has(op_.id)) {
    answer_unknown_key();
    co_return;
  }
  const bool streams = ports_.streams != nullptr && ports_.streams->find(op_.id) != nullptr;
  Attached attached = Attached::no;
  sometimes<"look up: at work here, and the store has lost it">();
  if (streams) attached = co_await attach(Ending::attached);
  if (attached != Attached::yes) answers().in_flight();
}

void Exchange::answer_unknown_key() {
  answers().not_found(
      "No request with this key has arrived with this caller, host, method and path, or its record has expired.");
}

Task<Exchange::Step> Exchange::reply_looked_up() {
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
      sometimes<"look up: settled meanwhile">(attached == Attached::settled);
      if (attached == Attached::settled) co_return Step::again;
      if (works) {
        answers().in_flight();
      } else {
        answer_unattached(attached);
      }
      break;
    }
  }
  co_return Step::answered;
}

}  // namespace once::gateway
