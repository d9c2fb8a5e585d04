#include "store/journal/record_reader.hpp"

#include <utility>

#include "store/verbs.hpp"

namespace once::journal {

namespace {

// The payload of a put of this operation.
DiskResult<std::string_view> checked(const DiskResult<std::string_view>& payload, const OperationId& id) {
  const auto seen = payload ? glance(*payload) : std::nullopt;
  if (!payload || (seen && seen->kind == Kind::put && seen->id == id)) return payload;
  return std::unexpected(DiskError{.detail = "the journal's index does not fit its segments"});
}

}  // namespace

bool takes_labels(const Op& op) {
  const bool writes_again =
      op.verb == Verb::renew ? op.terms.owner == Owner::outside : writes_outcome(op.verb) || op.verb == Verb::release;
  return writes_again && op.tenant.empty() && op.route.empty();
}

bool is_about_outcome(const Op& claim, const Record& record, Time now) {
  return record.fingerprint == claim.fingerprint && !expired(record, now);
}

Indexed look_up(const Appender& /*writer*/, const Index& index, const Op& op) {
  Indexed indexed;
  const auto shard = index.look(op.id);
  if (const auto* node = shard->hot.find(op.id)) indexed.record = &node->record;  // nobody but the writer changes it
  const bool complete = indexed.record != nullptr && !takes_labels(op);
  if (const auto* slot = complete ? nullptr : shard->slots.find(op.id)) indexed.place = slot->place;
  return indexed;
}

Read* Reads::of(const Op& op, Address address) {
  std::size_t at = next;
  while (at < done.size() && done[at].op != &op) ++at;
  if (at == done.size()) return nullptr;
  next = at + 1;
  return done[at].from.address == address ? &done[at] : nullptr;
}

void Reads::want(const Appender& writer, Op& op, Place place) {
  if (Read* const read = of(op, writer.segments().address(place))) {
    wanted.push_back(std::move(*read));
  } else {
    wanted.push_back({.op = &op, .from = writer.segments().pin(place)});
  }
}

void Reads::want_outcome(const Appender& writer, Op& op, Place place) {
  wanted.push_back({.op = &op, .from = writer.segments().pin(place), .needs_outcome = true});
}

void Reads::want_all(const Appender& writer, const Index& index, std::span<Op* const> ops) {
  for (Op* op : ops) {
    if (const Indexed indexed = look_up(writer, index, *op); !indexed.place.empty()) want(writer, *op, indexed.place);
  }
}

void RecordReader::read_all(Reads& reads) const {
  reads.done = std::exchange(reads.wanted, {});
  reads.next = 0;
  std::string buffer;
  for (Read& each : reads.done) {
    if (!each.tried()) read(each, buffer);
  }
}

// Enough for a claim that gets a mismatch or is told that the key has expired.
bool RecordReader::read_head(Read& read, FrameReader& reader) const {
  const bool large = read.from.about_size >= head_sum_from;
  if (read.op->verb != Verb::claim || read.needs_outcome || !large) return false;
  const auto head = reader.head();
  if (!head || !has_whole_head(head->payload) || !checked(head->payload, read.op->id)) return false;
  Record record = decode_put(head->payload);
  record.lease_until = past_runs_.lease(record.lease_until, read.from.address);
  record.outcome = nullptr;
  if (is_about_outcome(*read.op, record, clock_.now())) return false;
  read.record = std::move(record);
  read.lacks_outcome = true;
  return true;
}

void RecordReader::read(Read& read, std::string& buffer) const {
  FrameReader reader(disk_, read.from, buffer);
  if (read_head(read, reader)) return;
  const auto payload = checked(reader.whole(), read.op->id);
  if (!payload) {
    read.error = payload.error().detail;
    return;
  }
  read.record = decode_put(*payload);
  read.record->lease_until = past_runs_.lease(read.record->lease_until, read.from.address);
  if (!takes_labels(*read.op)) return;
  const Labels labels = labels_of(*payload);
  read.tenant = labels.tenant;
  read.route = labels.route;
}

}  // namespace once::journal
