// Decides the ops of a batch from the rows it has read: answers, and changes to write.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "store/mysql/batch.hpp"
#include "store/verbs.hpp"

namespace once::mysql {

namespace {

constexpr unsigned held_rounds_limit = 3;

Time to_time(std::int64_t microseconds) {
  return Time(std::chrono::floor<Duration>(std::chrono::microseconds(microseconds)));
}

// Fences grow even across a release or an expiry that leaves no row.
Fence next_fence(const Record& previous, std::int64_t clock_us) {
  return Fence{std::max(static_cast<std::uint64_t>(previous.fence) + 1, static_cast<std::uint64_t>(clock_us))};
}

}  // namespace

void Batch::settle(Item& item) {
  Op& op = *item.op;
  op.now = to_time(clock_us_);
  switch (op.verb) {
    case Verb::claim: return settle_claim(item);
    case Verb::renew:
    case Verb::finish:
    case Verb::resolve:
    case Verb::release:
    case Verb::forget: return settle_owner(item);
    case Verb::append: return settle_append(item);
    case Verb::read:
    case Verb::lookup: return settle_read(item);
  }
  ONCE_ASSERT(false);
}

void Batch::settle_append(Item& item) {
  const Op& op = *item.op;
  const Record* const record = item.seen ? &item.seen->record : nullptr;
  if (record == nullptr || expired(*record, op.now) || !may_append(*record, op)) return answer(item, OpStatus::lost);
  item.change = Change::append;
}

void Batch::settle_read(Item& item) {
  Op& op = *item.op;
  // Another owner took over between the two reads: the next round reads its record and chunks.
  if (item.streamed_by && item.seen && *item.streamed_by != item.seen->record.nonce) return;
  if (item.seen && !forgotten(item.seen->record, op.now)) {
    note_read(item, item.seen->record);
    op.record = std::move(item.seen->record);
    age(*op.record, op.now);
  }
  if (!op.record || !may_have_chunks(*op.record)) op.chunks.clear();
  // Chunks are sent to clients, so unlike another owner's claim they must be durable.
  const bool streams = !op.chunks.empty() && op.record->state == State::started;
  if (confirms_ && streams) item.unconfirmed = *op.record;
  answer(item, OpStatus::done);
}

void Batch::settle_claim(Item& item) {
  Op& op = *item.op;
  const std::optional<Row>& row = item.locked ? item.locked : item.seen;
  const Record* const record = row ? &row->record : nullptr;
  const bool same_claim = record != nullptr && !expired(*record, op.now) && is_same_claim(*record, op);
  op.verdict = same_claim ? Verdict::execute : decide(facts_of(record, op.fingerprint, op.terms, op.now));
  const bool ended = record != nullptr && !same_claim && is_ended_claim(*record, op, op.now);
  if (ended && op.verdict == Verdict::execute) op.verdict = Verdict::in_flight;
  if (same_claim || op.verdict != Verdict::execute) {
    op.record = *record;
    age(*op.record, op.now);
    return answer_read(item, *record, OpStatus::done);
  }
  if (record != nullptr && !item.locked) {
    if (item.read == Read::plain) {
      item.read = Read::both;
      return;
    }
    if (++item.held_rounds <= held_rounds_limit) return;
    // The transaction that holds the row is about to write it: the owner's, another claim's or the sweep's.
    op.verdict = Verdict::in_flight;
    op.record = *record;
    return answer(item, OpStatus::done);
  }
  item.written = {.row = {.id = op.id, .record = {}, .ttl = op.terms.ttl, .tombstone = op.terms.tombstone},
                  .tenant = op.tenant,
                  .route = op.route};
  item.written.row.record = claimed(record, op.fingerprint, op.nonce, op.terms, op.now);
  item.change = record == nullptr ? Change::insert : Change::replace;
  if (record == nullptr) return;
  item.was = seen_as(*record);
  item.written.row.record.fence = next_fence(*record, clock_us_);
  op.record = item.written.row.record;
}

void Batch::settle_owner(Item& item) {
  if (item.locked) return settle_owned(item, *std::exchange(item.locked, std::nullopt));
  if (item.read == Read::locked) {
    item.read = Read::both;
    return;
  }
  // Only the owner writes its nonce: if it is not in the committed row, it never will be.
  if (!item.seen || item.seen->record.nonce != item.op->nonce) return answer(item, OpStatus::lost);
  if (++item.held_rounds <= held_rounds_limit) return;
  item.answered = true;
  answer_failed(*item.op, StoreFault::unavailable, "row is locked by another transaction");
}

void Batch::settle_owned(Item& item, Row row) {
  Op& op = *item.op;
  Record& record = row.record;
  item.was = seen_as(record);
  if (op.verb == Verb::forget) {
    if (!may_forget(record, op, op.now)) return answer(item, OpStatus::lost);
    item.change = Change::remove;
    return;
  }
  if (expired(record, op.now)) return answer(item, OpStatus::lost);
  if (op.verb == Verb::release) {
    if (!may_release(record, op)) return answer(item, OpStatus::lost);
    item.change = Change::replace;
    if (std::optional<Record> left = released(record)) {
      item.written = {.row = {.id = row.id, .record = *std::move(left), .ttl = row.ttl, .tombstone = row.tombstone}};
    } else {
      item.written = {.row = {.id = row.id, .record = trace_of_release(record), .ttl = row.ttl},
                      .sweep_at = saturating_add(op.now, release_remembered)};
    }
    return;
  }
  const Written written = op.verb == Verb::renew     ? renew(record, op, op.now)
                          : op.verb == Verb::resolve ? resolve(record, op, op.now)
                                                     : finish(record, op, op.now);
  if (written == Written::no) return answer(item, OpStatus::lost);
  if (writes_outcome(op.verb)) op.record = record;
  if (written == Written::already) return answer_read(item, record, OpStatus::done);
  item.change = op.verb == Verb::renew ? Change::renew : Change::finish;
  item.written = {.row = std::move(row)};
}

}  // namespace once::mysql
