#include "store/journal/record_reader.hpp"

#include <algorithm>
#include <utility>

#include "store/verbs.hpp"

namespace once::journal {

namespace {

// Checks that the payload is a put of this operation.
DiskResult<std::string_view> checked(const DiskResult<std::string_view>& payload, const OperationId& id) {
  const auto seen = payload ? glance(*payload) : std::nullopt;
  if (!payload || (seen && seen->kind == Kind::put && seen->id == id)) return payload;
  return std::unexpected(DiskError{.detail = "the journal's index does not match its segments"});
}

// Checks that the payload is this chunk.
DiskResult<std::string_view> checked(const DiskResult<std::string_view>& payload, const ChunkName& name) {
  const auto seen = payload ? glance(*payload) : std::nullopt;
  if (!payload || (seen && seen->kind == Kind::chunk && chunk_name(*seen) == name)) return payload;
  return std::unexpected(DiskError{.detail = "the journal's index does not match its segments"});
}

// The least number of bytes in a chunk whose frame has about this size.
std::uint64_t least_bytes(Place chunk) {
  constexpr std::uint64_t around = frame_overhead + chunk_head + frame_alignment - 1;
  return chunk.about_size() - std::min(chunk.about_size(), around);
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
  if (const auto* node = shard->hot.find(op.id)) indexed.record = &node->record;  // only the writer changes it
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

void Reads::want_chunks(const Appender& writer, Op& op, std::span<const Place> places) {
  ChunkRead read{.op = &op, .from = {}};
  std::uint64_t bytes = 0;
  Place before;
  for (const Place place : places) {
    bytes += least_bytes(place);
    if (!read.from.empty() && bytes > op.chunk_bytes) break;
    if (!before.empty() && before.segment() == place.segment()) {
      Pinned another = read.from.back();  // in the same file
      another.address.offset = place.offset();
      another.about_size = place.about_size();
      read.from.push_back(std::move(another));
    } else {
      read.from.push_back(writer.segments().pin(place));
    }
    before = place;
  }
  chunks.push_back(std::move(read));
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

RecordReader::ChunksRead RecordReader::read_chunks(ChunkRead& read) const {
  Op& op = *read.op;
  std::string buffer;
  std::uint64_t bytes = 0;
  const Pinned* before = nullptr;
  ChunkName name{.id = op.id, .nonce = op.record->nonce, .fence = op.record->fence, .number = op.chunk};
  for (Pinned& from : read.from) {
    const bool opened = before != nullptr && before->address.segment == from.address.segment;
    if (from.file == nullptr && opened) from.file = before->file;
    before = &from;
    const auto payload = checked(FrameReader(disk_, from, buffer).whole(), name);
    if (!payload) {
      op.chunks.clear();
      read.unread = from.address;
      read.error = payload.error().detail;
      return ChunksRead::one_missing;
    }
    const std::string_view chunk = chunk_bytes(*payload);
    bytes += chunk.size();
    if (!op.chunks.empty() && bytes > op.chunk_bytes) break;
    op.chunks.push_back(std::make_shared<const std::string>(chunk));
    ++name.number;
  }
  return ChunksRead::all;
}

// Reads the part before the outcome, which is enough for a claim that gets a mismatch or an expired key.
bool RecordReader::read_head(Read& read, FrameReader& reader) const {
  const bool large = read.from.about_size >= head_sum_from;
  if (read.op->verb != Verb::claim || read.needs_outcome || !large) return false;
  const auto head = reader.head();
  if (!head || !has_whole_head(head->payload) || !checked(head->payload, read.op->id)) return false;
  Record record = decode_put(head->payload);
  record.lease_until = past_runs_.lease(record.lease_until, read.from.address);
  record.outcome = nullptr;
  if (is_about_outcome(*read.op, record, clock_.now())) return false;
  read.chunks = chunk_count(head->payload);
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
  read.chunks = chunk_count(*payload);
  read.record->lease_until = past_runs_.lease(read.record->lease_until, read.from.address);
  if (!takes_labels(*read.op)) return;
  const Labels labels = labels_of(*payload);
  read.tenant = labels.tenant;
  read.route = labels.route;
}

}  // namespace once::journal
