#include "store/redis/answer.hpp"

#include <utility>

#include "base/assert.hpp"
#include "core/decision.hpp"
#include "store/redis/packed.hpp"

namespace once::redis {

namespace {

Read cannot_read(Op& op, std::string_view packed) {
  answer_failed(op, StoreFault::refused, why_unreadable(packed));
  return Read::refused;
}

// There was no record before, so the whole record follows from the clock.
Read read_first_claim(Op& op, std::uint64_t clock_us) {
  op.now = time_of(clock_us);
  op.status = OpStatus::done;
  op.verdict = Verdict::execute;
  op.record = claimed(nullptr, op.fingerprint, op.nonce, op.terms, op.now);
  op.record->fence = Fence{clock_us};
  return Read::written;
}

Read read_claim(Op& op, const Answered& answered, std::optional<Record> record) {
  if (!record) return Read::nonsense;
  if (answered.answer == Answer::ended) {
    op.status = OpStatus::done;
    op.verdict = Verdict::in_flight;
    age(*record, op.now);
    op.record = std::move(record);
    return Read::answered;
  }
  const bool executes = answered.answer == Answer::written || answered.answer == Answer::own;
  if (!executes && answered.answer != Answer::stands) return Read::nonsense;
  const Verdict verdict = executes ? Verdict::execute : decide(facts_of(&*record, op.fingerprint, op.terms, op.now));
  // The script decides who executes: if it did not write the claim, the claim must not execute.
  if (!executes && verdict == Verdict::execute) return Read::nonsense;
  op.status = OpStatus::done;
  op.verdict = verdict;
  if (!executes) age(*record, op.now);
  op.record = std::move(record);
  const bool tells_outcome = verdict == Verdict::replay || verdict == Verdict::not_kept;
  return executes || (tells_outcome && !on_replicas(answered.record)) ? Read::written : Read::answered;
}

Read read_owner(Op& op, const Answered& answered, std::optional<Record> record) {
  if (answered.answer == Answer::lost) {
    op.status = OpStatus::lost;
    return Read::answered;
  }
  const bool repeated = answered.answer == Answer::stands && op.verb == Verb::finish;
  if (answered.answer != Answer::written && !repeated) return Read::nonsense;
  if (writes_outcome(op.verb)) {
    if (!record) return Read::nonsense;
    if (!repeated) record->outcome = op.outcome;
    op.record = std::move(record);
  }
  op.status = OpStatus::done;
  return repeated && on_replicas(answered.record) ? Read::answered : Read::written;
}

Read read_lookup(Op& op, const Answered& answered, std::optional<Record> record) {
  if (answered.answer != Answer::nothing && (answered.answer != Answer::stands || !record)) return Read::nonsense;
  op.status = OpStatus::done;
  if (record) age(*record, op.now);
  const bool tells_outcome = record && record->state == State::succeeded;
  op.record = std::move(record);
  return tells_outcome && !on_replicas(answered.record) ? Read::written : Read::answered;
}

Read read_append(Op& op, const Answered& answered) {
  if (answered.answer != Answer::missing) return read_owner(op, answered, std::nullopt);
  answer_failed(op, StoreFault::no_chunks, "Redis has lost earlier chunks of this response");
  return Read::answered;
}

// Chunks are returned only together with their record.
Read read_chunks(Op& op, const redisReply& reply) {
  for (std::size_t i = 0; i < reply.elements; ++i) {
    if (reply.element[i]->type != REDIS_REPLY_STRING) return Read::nonsense;
  }
  const Read read = read_reply(op, *reply.element[0]);
  if (read == Read::refused) return read;
  if ((read != Read::answered && read != Read::written) || !op.record || !may_have_chunks(*op.record)) {
    op.record.reset();
    return Read::nonsense;
  }
  for (std::size_t i = 1; i < reply.elements; ++i) {
    op.chunks.push_back(std::make_shared<const std::string>(text_of(*reply.element[i])));
  }
  return op.record->state == State::succeeded ? read : Read::written;
}

}  // namespace

Read read_reply(Op& op, const redisReply& reply) {
  if (op.verb == Verb::read && is_array(reply) && reply.elements > 1) return read_chunks(op, reply);
  if (reply.type == REDIS_REPLY_INTEGER && op.verb == Verb::claim && reply.integer > 0) {
    return read_first_claim(op, static_cast<std::uint64_t>(reply.integer));
  }
  if (reply.type != REDIS_REPLY_STRING) return Read::nonsense;
  const auto answered = read_answer(text_of(reply));
  if (!answered) return Read::nonsense;
  if (answered->answer == Answer::unreadable) return cannot_read(op, answered->record);
  if (answered->answer == Answer::late && op.verb == Verb::claim) {
    op.now = time_of(answered->clock_us);
    return Read::late;
  }
  std::optional<Record> record;
  if (!answered->record.empty()) {
    // The head of the written record says that there is an outcome, which is not sent back.
    record = unpack_record(answered->record);
    if (!record) return cannot_read(op, answered->record);
  }
  op.now = time_of(answered->clock_us);
  switch (op.verb) {
    case Verb::claim: return read_claim(op, *answered, std::move(record));
    case Verb::renew:
    case Verb::finish:
    case Verb::resolve:
    case Verb::release:
    case Verb::forget: return read_owner(op, *answered, std::move(record));
    case Verb::append: return read_append(op, *answered);
    case Verb::read:
    case Verb::lookup: return read_lookup(op, *answered, std::move(record));
  }
  ONCE_ASSERT(false);
}

Refusal refusal_of(std::string_view error) {
  const std::string_view code = error_code(error);
  if (code == "NOSCRIPT") return Refusal::no_script;
  if (code == "MOVED" || code == "ASK") return Refusal::redirection;
  if (code == "OOM") return Refusal::full;
  if (code == "READONLY" || code == "MASTERDOWN") return Refusal::not_master;
  if (code == "TRYAGAIN" || code == "CLUSTERDOWN" || code == "LOADING") return Refusal::not_now;
  return Refusal::lasting;
}

}  // namespace once::redis
