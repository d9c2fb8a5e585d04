// The caller stops its own stream. Any gateway can do it: finish the record in the owner's name, with the chunks that
// are recorded. The owner's next append is then refused as lost, so it cancels its request to the backend.
#include <utility>

#include "base/sometimes.hpp"
#include "core/outcome.hpp"
#include "core/reason.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/stream/stopped_stream.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

namespace {

// The stream may end or be taken over between reading its record and stopping it, so try again.
constexpr int most_looks = 3;

}  // namespace

Task<void> Exchange::stop(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  Step step = Step::again;
  for (int look = 0; look < most_looks && step == Step::again; ++look) {
    co_await read_record();
    if (op_.status == OpStatus::failed) {
      log_refusal();
      answers().store_fault(op_.fault);
      step = Step::answered;
    } else if (!op_.record) {
      if (ports_.executions.has(op_.id)) {
        answers().in_flight();
      } else {
        answer_unknown_key();
      }
      step = Step::answered;
    } else {
      step = co_await stop_found();
    }
  }
  sometimes<"stop: the record changed three times">(step == Step::again);
  if (step == Step::again) answers().in_flight();
  reply.known_key = true;
  end();
}

Task<Exchange::Step> Exchange::stop_found() {
  switch (op_.record->state) {
    case State::succeeded: reply_stopped(is_stopped(*op_.record)); co_return Step::answered;
    case State::failed:
      answers().not_found("The last attempt of this operation failed. There is nothing to stop.");
      co_return Step::answered;
    case State::tombstone: answers().expired(); co_return Step::answered;
    case State::unknown: answers().held(); co_return Step::answered;
    case State::started: break;
  }
  const bool works = owner_works(op_) || ports_.executions.has(op_.id);
  const auto head = op_.chunks.empty() ? std::nullopt : decode(*op_.chunks.front());
  if (!works || !head) {
    sometimes<"stop: nothing has streamed yet">(works);
    sometimes<"stop: the owner is gone">(!works);
    if (works) {
      answers().in_flight();
    } else {
      answers().held();
    }
    co_return Step::answered;
  }
  const OutcomeBytes outcome = stopped_outcome(*head);
  const Step step = co_await finish_stopped(outcome);
  co_return step;
}

Task<Exchange::Step> Exchange::finish_stopped(OutcomeBytes outcome) {
  op_.nonce = op_.record->nonce;
  op_.terms = terms_of(request_->policy);
  op_.terms.ttl = request_->policy.ttl;
  prepare_stop(op_, std::move(outcome));
  // Readers were sent more than is recorded, so the record must not be replayed as the response.
  const std::shared_ptr<LiveStream> live = ports_.streams != nullptr ? ports_.streams->find(op_.id) : nullptr;
  sometimes<"stop: of a stream at another gateway">(!live);
  sometimes<"stop: readers have more than the record">(live && !live->head());
  if (live && !live->head()) op_.body_kept = BodyKept::no;
  co_await claimant_.ask(op_);
  sometimes<"stop: the stream ended first">(op_.status == OpStatus::lost);
  if (op_.status == OpStatus::lost) co_return Step::again;
  if (op_.status == OpStatus::failed) {
    log_refusal();
    answers().store_fault(op_.fault);
    co_return Step::answered;
  }
  if (another_outcome_stands(op_)) {
    sometimes<"stop: another outcome was recorded">();
    reply_stopped(is_stopped(*op_.record));
    co_return Step::answered;
  }
  if (ports_.streams != nullptr) ports_.streams->stop(op_.id);
  ports_.waiters.notify(op_.id);
  reply_stopped(true);
  co_return Step::answered;
}

void Exchange::reply_stopped(bool stopped) {
  reply_->reset();
  reply_->status = 204;
  reply_->ending = Ending::stopped;
  reply_->reason = reason_phrase(reply_->status);
  reply_->fields.add(FieldName::of_token(stopped_field), stopped ? "true" : "false");
  add_request_id(reply_->fields, request_->request_id, request_->policy.wording);
}

}  // namespace once::gateway
