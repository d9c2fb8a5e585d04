// Reading records back. Under the writer's mutex an op only finds out where its record is; the disk is asked without
// it, so that a cold or large record keeps nobody waiting but its own callers. Then the op is executed anew: if the
// record is still at the same address it is what was read, for what is at an address never changes; if not, it is read
// again.
#include <utility>

#include "store/journal/journal_store.hpp"
#include "store/verbs.hpp"

namespace once {

using journal::Place;
using journal::Shard;

namespace {

// Threads that wait for the disk beside the one that writes.
constexpr std::size_t reading_parts = 4;

// Whether what a claim is told depends on more than that the key was used for another request or has expired.
bool is_about_outcome(const Op& claim, const Record& record, Time now) {
  return record.fingerprint == claim.fingerprint && !expired(record, now);
}

}  // namespace

std::size_t JournalStore::part_of(const OperationId& id) const {
  const Shard& shard = shard_of(id);
  const std::scoped_lock lock(shard.mutex);
  if (shard.hot.has(id) || !shard.slots.has(id)) return 0;
  return 1 + id.bytes.back() % reading_parts;
}

// The owner of a live claim says its labels again; those of the others are read back from where they were written last.
bool JournalStore::takes_labels(const Op& op) {
  const bool writes_again =
      op.verb == Verb::renew ? op.terms.owner == Owner::outside : writes_outcome(op.verb) || op.verb == Verb::release;
  return writes_again && op.tenant.empty() && op.route.empty();
}

JournalStore::Read* JournalStore::Reads::of(const Op& op, journal::Address address) {
  std::size_t at = next;
  while (at < done.size() && done[at].op != &op) ++at;
  if (at == done.size()) return nullptr;
  next = at + 1;
  return done[at].from.address == address ? &done[at] : nullptr;
}

JournalStore::Indexed JournalStore::look_up(const Op& op) {
  Indexed indexed;
  Shard& shard = shard_of(op.id);
  const std::scoped_lock lock(shard.mutex);
  if (const auto* node = shard.hot.find(op.id)) indexed.record = &node->record;  // nobody but us changes it
  const bool complete = indexed.record != nullptr && !takes_labels(op);
  if (const auto* slot = complete ? nullptr : shard.slots.find(op.id)) indexed.place = slot->place;
  return indexed;
}

void JournalStore::want(Op& op, Place place, Reads& reads) {
  if (Read* const read = reads.of(op, segments_.address(place))) {
    reads.wanted.push_back(std::move(*read));
  } else {
    reads.wanted.push_back({.op = &op, .from = segments_.pin(place)});
  }
}

void JournalStore::want_all(std::span<Op* const> ops, Reads& reads) {
  for (Op* op : ops) {
    if (const Indexed indexed = look_up(*op); !indexed.place.empty()) want(*op, indexed.place, reads);
  }
}

std::optional<JournalStore::Found> JournalStore::load(Op& op, Reads& reads, Time now) {
  const Indexed indexed = look_up(op);
  Found found{.record = indexed.record, .labels = {.tenant = op.tenant, .route = op.route}};
  if (!indexed.place.empty()) {
    Read* const read = reads.of(op, segments_.address(indexed.place));
    if (read == nullptr) {
      want(op, indexed.place, reads);
      return std::nullopt;
    }
    if (takes_labels(op)) found.labels = {.tenant = read->tenant, .route = read->route};
    // Labels are for people: if only they cannot be read, that keeps nobody from writing.
    if (found.record == nullptr && !read->record) {
      log_.error("the journal cannot be read", {{"error", read->error}});
      answer_failed(op, StoreFault::refused, read->error);
      return std::nullopt;
    }
    if (read->lacks_outcome && is_about_outcome(op, *read->record, now)) {
      reads.wanted.push_back({.op = &op, .from = segments_.pin(indexed.place), .needs_outcome = true});
      return std::nullopt;
    }
    if (found.record == nullptr) {
      counters_.read_back.fetch_add(1, std::memory_order_relaxed);
      read_record_ = *std::move(read->record);
      found.record = &read_record_;
      if (!forgotten(read_record_, now) && !read->lacks_outcome) {
        Shard& shard = shard_of(op.id);
        const std::scoped_lock lock(shard.mutex);
        shard.keep(op.id, Record(read_record_), shard_cache_bytes_);
      }
    }
  }
  if (found.record == nullptr || !expired(*found.record, now)) return found;
  if (forgotten(*found.record, now)) {
    found.record = nullptr;
  } else if (found.record->state != State::tombstone) {
    if (found.record != &read_record_) read_record_ = *found.record;
    age(read_record_, now);
    found.record = &read_record_;
  }
  return found;
}

void JournalStore::read_all(Reads& reads) {
  reads.done = std::exchange(reads.wanted, {});
  reads.next = 0;
  std::string buffer;
  for (Read& each : reads.done) {
    if (!each.tried()) read(each, buffer);
  }
}

DiskResult<std::string_view> JournalStore::checked(const DiskResult<std::string_view>& payload, const OperationId& id) {
  const auto seen = payload ? journal::glance(*payload) : std::nullopt;
  if (!payload || (seen && seen->kind == journal::Kind::put && seen->id == id)) return payload;
  return std::unexpected(DiskError{.detail = "the journal's index does not fit its segments"});
}

// Enough for a claim that gets a mismatch or is told that the key has expired.
bool JournalStore::read_head(Read& read, journal::FrameReader& reader) const {
  const bool large = read.from.about_size >= journal::head_sum_from;
  if (read.op->verb != Verb::claim || read.needs_outcome || !large) return false;
  const auto head = reader.head();
  if (!head || !journal::has_whole_head(head->payload) || !checked(head->payload, read.op->id)) return false;
  Record record = journal::decode_put(head->payload);
  record.lease_until = past_runs_.lease(record.lease_until, read.from.address);
  record.outcome = nullptr;
  if (is_about_outcome(*read.op, record, clock_.now())) return false;
  read.record = std::move(record);
  read.lacks_outcome = true;
  return true;
}

void JournalStore::read(Read& read, std::string& buffer) {
  journal::FrameReader reader(disk_, read.from, buffer);
  if (read_head(read, reader)) return;
  const auto payload = checked(reader.whole(), read.op->id);
  if (!payload) {
    read.error = payload.error().detail;
    return;
  }
  read.record = journal::decode_put(*payload);
  read.record->lease_until = past_runs_.lease(read.record->lease_until, read.from.address);
  if (!takes_labels(*read.op)) return;
  const journal::Labels labels = journal::labels_of(*payload);
  read.tenant = labels.tenant;
  read.route = labels.route;
}

}  // namespace once
