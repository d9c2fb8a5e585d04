// A caller stops a stream that it has begun. Any gateway can do that: it finishes the record in the name of the owner,
// with the chunks that are there. From then on the owner's appends are lost, so it ends its request to the backend.
#include <utility>

#include "core/outcome.hpp"
#include "gateway/exchange/exchange.hpp"
#include "gateway/stream/stopped_stream.hpp"
#include "store/claim_steps.hpp"

namespace once::gateway {

namespace {

// A stream may end, or be taken over, between a look at it and its stop.
constexpr int most_looks = 3;

}  // namespace

Task<void> Exchange::stop(const KeyedRequest& request, Reply& reply) {
  begin(request, reply);
  bool decided = false;
  for (int look = 0; look < most_looks && !decided; ++look) {
    co_await read_record();
    if (op_.status == OpStatus::failed) {
      log_refusal();
      answers().store_fault(op_.fault);
      decided = true;
    } else if (!op_.record) {
      if (ports_.executions.has(op_.id)) {
        answers().in_flight();
      } else {
        answer_unknown_key();
      }
      decided = true;
    } else {
      decided = co_await stop_found();
    }
  }
  if (!decided) answers().in_flight();
  reply.known_key = true;
  end();
}

// False: it has changed meanwhile.
Task<bool> Exchange::stop_found() {
  switch (op_.record->state) {
    case State::succeeded: reply_stopped(is_stopped(*op_.record)); co_return true;
    case State::failed:
      answers().not_found("The last attempt of this operation failed. There is nothing to stop.");
      co_return true;
    case State::tombstone: answers().expired(); co_return true;
    case State::unknown: answers().held(); co_return true;
    case State::started: break;
  }
  const bool works = owner_works(op_) || ports_.executions.has(op_.id);
  const auto head = op_.chunks.empty() ? std::nullopt : decode(*op_.chunks.front());
  if (!works || !head) {
    if (works) {
      answers().in_flight();
    } else {
      answers().held();
    }
    co_return true;
  }
  const OutcomeBytes outcome = stopped_outcome(*head);
  const bool stopped = co_await finish_stopped(outcome);
  co_return stopped;
}

Task<bool> Exchange::finish_stopped(OutcomeBytes outcome) {
  op_.nonce = op_.record->nonce;
  op_.terms = terms_of(request_->policy);
  op_.terms.ttl = request_->policy.ttl;
  prepare_stop(op_, std::move(outcome));
  // Its readers have seen more than is recorded, so what is recorded must not be replayed as the answer.
  const std::shared_ptr<LiveStream> live = ports_.streams != nullptr ? ports_.streams->find(op_.id) : nullptr;
  if (live && !live->head()) op_.body_kept = BodyKept::no;
  co_await claimant_.ask(op_);
  if (op_.status == OpStatus::lost) co_return false;
  if (op_.status == OpStatus::failed) {
    log_refusal();
    answers().store_fault(op_.fault);
    co_return true;
  }
  if (another_outcome_stands(op_)) {
    reply_stopped(is_stopped(*op_.record));
    co_return true;
  }
  if (ports_.streams != nullptr) ports_.streams->stop(op_.id);
  ports_.waiters.notify(op_.id);
  reply_stopped(true);
  co_return true;
}

void Exchange::reply_stopped(bool stopped) {
  reply_->reset();
  reply_->status = 204;
  reply_->ending = Ending::stopped;
  reply_->head.append("HTTP/1.1 204 No Content\r\n");
  reply_->head.append(stopped_field).append(stopped ? ": true\r\n" : ": false\r\n");
  append_request_id(reply_->head, request_->request_id, request_->policy.wording);
}

}  // namespace once::gateway
