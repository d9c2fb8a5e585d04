#include "store/journal/batch.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"
#include "store/verbs.hpp"

namespace once::journal {

std::size_t Batch::execute(std::span<Op* const> ops) {
  appender_.begin_write();
  // With millions of keys, each is a cache miss: prefetch all of them together.
  for (const Op* op : ops) core_.index.fetch(appender_, op->id);
  std::size_t executed = 0;
  for (Op* op : ops) {
    op->now = now_;
    op->status = OpStatus::done;
    op->record.reset();
    op->chunks.clear();
    op->error.clear();
    if (appender_.has_failed()) {
      answer_failed(*op, StoreFault::refused, appender_.health().failure());
    } else {
      decide(*op);
    }
    if (!reads_.wanted.empty()) {
      sometimes<"journal: a batch is cut to read records">(executed > 0);
      break;
    }
    ++executed;
  }
  if (!appender_.changes().empty()) commit();
  return executed;
}

std::optional<Batch::Found> Batch::find_record(Op& op) {
  const Indexed indexed = look_up(appender_, core_.index, op);
  Found found{.record = indexed.record, .labels = {.tenant = op.tenant, .route = op.route}};
  if (!indexed.place.empty() && !take_read_record(op, indexed.place, found)) return std::nullopt;
  if (found.record == nullptr || !expired(*found.record, now_)) return found;
  if (forgotten(*found.record, now_)) {
    found.record = nullptr;
  } else if (found.record->state != State::tombstone) {
    if (found.record != &read_record_) read_record_ = *found.record;
    age(read_record_, now_);
    found.record = &read_record_;
  }
  return found;
}

bool Batch::take_read_record(Op& op, Place place, Found& found) {
  Read* const read = reads_.of(op, appender_.segments().address(place));
  if (read == nullptr) {
    reads_.want(appender_, op, place);
    return false;
  }
  if (takes_labels(op)) found.labels = {.tenant = read->tenant, .route = read->route};
  // Labels are only informative: if only they cannot be read, write anyway.
  if (found.record == nullptr && !read->record) {
    sometimes<"journal: a record cannot be read">();
    core_.log.error("the journal cannot be read", {{"error", read->error}});
    answer_failed(op, StoreFault::refused, read->error);
    return false;
  }
  if (read->lacks_outcome && is_about_outcome(op, *read->record, now_)) {
    reads_.want_outcome(appender_, op, place);
    return false;
  }
  if (found.record != nullptr) return true;
  core_.counters.read_back.add(1);
  read_record_ = *std::move(read->record);
  found.record = &read_record_;
  const bool has_body = core_.index.has_body(op.id, read_record_, read->chunks);
  if (expired(read_record_, now_) && !has_body) return true;  // its chunks are deleted before the record is
  if (!has_body) {
    sometimes<"journal: the body is incomplete">();
    read_record_.outcome = nullptr;
    read_record_.body_kept = BodyKept::no;
  }
  if (!forgotten(read_record_, now_) && !read->lacks_outcome) {
    core_.index.change(appender_, op.id)->keep(op.id, Record(read_record_));
  }
  return true;
}

void Batch::decide(Op& op) {
  const std::optional<Found> found = find_record(op);
  if (!found) return;
  switch (op.verb) {
    case Verb::claim: return claim(op, found->record);
    case Verb::renew: return renew_lease(op, *found);
    case Verb::finish:
    case Verb::resolve: return finish_claim(op, *found);
    case Verb::release: return release_claim(op, *found);
    case Verb::forget: return forget_record(op, found->record);
    case Verb::lookup:
      if (found->record != nullptr) op.record = *found->record;
      return;
    case Verb::append: return append_chunk(op, found->record);
    case Verb::read: return read_record(op, found->record);
  }
  ONCE_ASSERT(false);
}

void Batch::claim(Op& op, const Record* found) {
  if (found != nullptr && is_same_claim(*found, op)) {
    op.verdict = Verdict::execute;
    op.record = *found;
    return;
  }
  op.verdict = ::once::core::decide(facts_of(found, op.fingerprint, op.terms, now_));
  if (op.verdict == Verdict::execute && found != nullptr && is_ended_claim(*found, op, now_)) {
    op.verdict = Verdict::in_flight;
  }
  if (op.verdict != Verdict::execute) {
    op.record = *found;
    return;
  }
  Record record = claimed(found, op.fingerprint, op.nonce, op.terms, now_);
  const Labels labels{.tenant = op.tenant, .route = op.route};
  const bool no_memory = found == nullptr && !core_.index.has_memory_for(op.id);
  const bool full = found == nullptr && refuses_new_data();
  if (no_memory || full || appender_.segments().over_limit() ||
      !appender_.has_room_for(put_frame_size(record, labels), {.claims = 1})) {
    core_.counters.refused.add(1);
    sometimes<"journal: new key refused">();
    if (no_memory) {
      appender_.health().set_full({.fault = DiskFault::no_space, .detail = "journal.max_memory is reached"});
    }
    return answer_failed(op, StoreFault::full,
                         no_memory ? "journal.max_memory is reached" : "no room on disk for new keys");
  }
  record.fence = appender_.next_fence();
  if (op.terms.owner == Owner::process) record.lease_until = Time::max();
  op.record = record;
  appender_.put(op, std::move(record), labels);
}

// The space left in a full journal is reserved for the outcomes of claims already granted, with their bodies.
bool Batch::refuses_new_data() const {
  return core_.counters.condition.get() == Condition::full && !appender_.has_room_again();
}

// Space is reserved for the outcomes of live claims only. Owners of leased claims may be dead and never use it, and
// operators have no claim, so both need free space beyond the reserve.
void Batch::renew_lease(Op& op, const Found& found) {
  Record record = found.record == nullptr ? Record() : *found.record;
  if (found.record == nullptr || renew(record, op, now_) == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (Shard::is_live(*found.record)) return;
  if (op.terms.owner == Owner::outside) {
    // Write the renewal, or a restart would not know that the owner is still working.
    sometimes<"journal: a lease is renewed">();
    if (!appender_.has_room_for(put_frame_size(record))) {
      return answer_failed(op, StoreFault::full, "no room on disk to renew a lease");
    }
    return appender_.put(op, std::move(record), found.labels);
  }
  sometimes<"journal: an owner is back after a restart">();
  // The claim lapsed when the process ended, and its owner is back. Not written: at the next end of the process it
  // lapses again.
  record.lease_until = Time::max();
  const auto shard = core_.index.change(appender_, op.id);
  shard->slots.find(op.id)->expires = never_expires;
  core_.index.record_changed(appender_.segments(), *shard, op.id, &record);
  shard->keep(op.id, std::move(record));
  appender_.claim_begins();
}

void Batch::finish_claim(Op& op, const Found& found) {
  Record record = found.record == nullptr ? Record() : *found.record;
  const bool resolves = op.verb == Verb::resolve;
  const Written written = found.record == nullptr ? Written::no
                          : resolves              ? resolve(record, op, now_)
                                                  : finish(record, op, now_);
  if (written == Written::no) {
    op.status = OpStatus::lost;
    return;
  }
  if (written == Written::already) {
    op.record = std::move(record);
    return;
  }
  // Keep the space that carrying forward needs.
  const SegmentLog& segments = appender_.segments();
  const std::uint64_t carrying = segments.over_limit() ? segments.oldest().all_live_bytes() / 8 * 9 : 0;
  Labels labels = found.labels;
  if (!appender_.has_room_for(put_frame_size(record, labels), {.bytes = carrying})) {
    if (resolves) return answer_failed(op, StoreFault::full, "no room on disk for the response");
    labels = {};
    record.outcome = nullptr;
    record.body_kept = BodyKept::no;
    sometimes<"journal: no room for the body">();
    core_.counters.bodies_dropped.add(1);
    if (!Shard::is_live(*found.record) && !appender_.has_room_for(put_frame_size(record))) {
      return answer_failed(op, StoreFault::full, "no room on disk for the outcome: the claim has no reserved space");
    }
  }
  const bool in_chunks = record.body_kept == BodyKept::in_chunks;
  const std::uint32_t chunks = in_chunks ? core_.index.count_chunks(op.id, *found.record) : 0;
  op.record = record;
  appender_.put(op, std::move(record), labels, chunks);
}

void Batch::release_claim(Op& op, const Found& found) {
  if (found.record == nullptr || !may_release(*found.record, op)) {
    op.status = OpStatus::lost;
    return;
  }
  std::optional<Record> left = released(*found.record);
  const std::uint64_t frame = left ? put_frame_size(*left) : remove_frame_size;
  if (!Shard::is_live(*found.record) && !appender_.has_room_for(frame)) {
    return answer_failed(op, StoreFault::full, "no room on disk for the release: the claim has no reserved space");
  }
  if (left) {
    appender_.put(op, *std::move(left), found.labels);
  } else {
    appender_.remove(op, found.record->fence);
  }
}

void Batch::forget_record(Op& op, const Record* found) {
  if (found == nullptr || !may_forget(*found, op, now_)) {
    op.status = OpStatus::lost;
    return;
  }
  if (!appender_.has_room_for(remove_frame_size)) {
    return answer_failed(op, StoreFault::full, "no room on disk to forget");
  }
  appender_.remove(op, found->fence);
}

void Batch::append_chunk(Op& op, const Record* found) {
  if (found == nullptr || !may_append(*found, op)) {
    op.status = OpStatus::lost;
    return;
  }
  const std::uint32_t there = core_.index.count_chunks(op.id, *found);
  if (op.chunk < there) return;
  // Lost by a repair or an earlier version of the program. Readers get what precedes the gap.
  sometimes<"journal: chunk after a gap">(op.chunk > there);
  if (op.chunk > there) return answer_failed(op, StoreFault::no_chunks, "an earlier chunk of the response is missing");
  if (!core_.index.has_memory_for_chunk(op.id)) {
    return answer_failed(op, StoreFault::full, "journal.max_memory is reached");
  }
  // The same space as for a new key: a short response will be written again as its outcome.
  const std::uint64_t frame = frame_size(chunk_head + op.outcome->size());
  if (refuses_new_data() || appender_.segments().over_limit() || !appender_.has_room_for(frame)) {
    sometimes<"journal: no room for a chunk">();
    return answer_failed(op, StoreFault::full, "no room on disk for the response");
  }
  appender_.add_chunk(op, *found);
}

void Batch::read_record(Op& op, const Record* found) {
  if (found == nullptr) return;
  op.record = *found;
  const auto shard = core_.index.look(op.id);
  const ChunkPlaces::List* list = shard->chunks.find(op.id, *found);
  if (list == nullptr || op.chunk >= list->places.size()) return;
  reads_.want_chunks(appender_, op, std::span(list->places).subspan(op.chunk));
}

void Batch::commit() {
  if (const auto written = appender_.write_changes(now_); !written) {
    sometimes<"journal: a write failed">();
    for (const Appender::Change& change : appender_.changes()) {
      answer_failed(*change.op, StoreFault::unavailable, written.error().detail);
    }
    return;
  }
  for (Appender::Change& change : appender_.changes()) apply(change);
  appender_.publish_sizes();
}

void Batch::apply(Appender::Change& change) {
  const OperationId& id = change.op->id;
  SegmentLog& segments = appender_.segments();
  const auto shard = core_.index.change(appender_, id);
  if (change.kind == Kind::chunk) {
    core_.index.add_chunk(segments, *shard, id, change.record, change.place);
    return;
  }
  const bool removes = change.kind == Kind::remove;
  core_.index.record_changed(segments, *shard, id, removes ? nullptr : &change.record);
  SlotTable::Slot* slot = shard->slots.find(id);
  if (const auto* node = shard->hot.find(id); node != nullptr && Shard::is_live(node->record)) appender_.claim_ends();
  if (slot != nullptr) segments.count_live(slot->place, -1);
  if (removes) {
    if (slot != nullptr) shard->slots.erase(*slot);
    shard->forget(id);
    return;
  }
  const bool live = Shard::is_live(change.record);
  const Time ends =
      is_leased(change.record) ? std::max(change.record.forget_at, change.record.lease_until) : change.record.forget_at;
  const ExpirySecond expires = live ? never_expires : expiry_second(ends);
  if (slot != nullptr) {
    slot->place = change.place;
    slot->expires = expires;
  } else {
    core_.index.insert(*shard, id, expires, change.place);
  }
  segments.count_live(change.place, 1);
  Segment& segment = segments.segment(change.place.segment());
  segment.expires_by = std::max(segment.expires_by, change.record.expires_at);
  if (live) appender_.claim_begins();
  shard->keep(id, std::move(change.record));
}

}  // namespace once::journal
