#include "store/journal/index.hpp"

#include <algorithm>
#include <utility>

#include "store/journal/segment_log.hpp"
#include "store/verbs.hpp"

namespace once::journal {

Index::Index(const JournalSettings& settings)
    : limit_(settings.max_memory - std::min(settings.max_memory, settings.cache_bytes)) {
  for (Cell& cell : cells_) {
    const auto shard = cell.shard.lock();
    shard->cache_bytes = settings.cache_bytes / shard_count;
    bytes_.add(shard->slots.bytes());
  }
}

bool Index::answer(Op& op, Time now) {
  const auto shard = cells_[number_of(op.id)].shard.lock();
  RecordTable::Node* node = shard->hot.find(op.id);
  if (node == nullptr || expired(node->record, now)) return false;
  if (op.verb == Verb::claim) {
    if (is_same_claim(node->record, op)) return false;
    op.verdict = ::once::core::decide(facts_of(&node->record, op.fingerprint, op.terms, now));
    if (op.verdict == Verdict::execute) return false;
    if (!Shard::is_live(node->record)) shard->finished.take(*node);
  } else if (op.verb == Verb::read) {
    const ChunkPlaces::List* list = shard->chunks.find(op.id, node->record);
    if (list != nullptr && op.chunk < list->places.size()) return false;
    op.chunks.clear();
  }
  op.now = now;
  op.status = OpStatus::done;
  op.error.clear();
  op.record = node->record;
  return true;
}

void Index::insert(Shard& shard, const OperationId& id, ExpirySecond expires, Place place) {
  if (const std::size_t growth = shard.slots.growth(); growth > 0) bytes_.add(growth);
  shard.slots.insert(id, expires, place);
}

void Index::give_back_memory(Shard& shard) {
  const std::size_t before = shard.slots.bytes();
  shard.slots.give_back_memory();
  bytes_.subtract(before - shard.slots.bytes());
}

void Index::add_chunk(SegmentLog& segments, Shard& shard, const OperationId& id, const Record& record, Place place) {
  const std::size_t before = shard.chunks.bytes();
  shard.chunks.add(id, record, place);
  chunk_bytes_.add(shard.chunks.bytes() - before);
  segments.count_chunk(place, 1);
}

void Index::add_chunks(SegmentLog& segments, Shard& shard, const OperationId& id, const Record& record,
                       std::vector<Place> places) {
  if (places.empty()) return;
  for (const Place place : places) segments.count_chunk(place, 1);
  const std::size_t before = shard.chunks.bytes();
  shard.chunks.add_all(id, record, std::move(places));
  chunk_bytes_.add(shard.chunks.bytes() - before);
}

void Index::keep_or_end_chunks(SegmentLog& segments, Shard& shard, const OperationId& id, const Record* record) {
  ChunkPlaces::List* list = shard.chunks.find(id);
  if (list == nullptr) return;
  if (record == nullptr || !list->is_of(*record)) return end_chunks(segments, shard, SlotTable::tag_of(id));
  const std::size_t before = shard.chunks.bytes();
  shard.chunks.keep(*list, *record);
  chunk_bytes_.subtract(before - shard.chunks.bytes());
}

void Index::end_chunks(SegmentLog& segments, Shard& shard, const SlotTable::Tag& tag) {
  const std::size_t before = shard.chunks.bytes();
  for (const Place place : shard.chunks.end(tag)) segments.count_chunk(place, -1);
  chunk_bytes_.subtract(before - shard.chunks.bytes());
}

bool Index::has_memory_for(const OperationId& id) const {
  const std::size_t growth = look(id)->slots.growth();
  return growth == 0 || bytes() + chunk_bytes() + growth <= limit_;
}

bool Index::has_memory_for_chunk(const OperationId& id) const {
  const std::size_t growth = look(id)->chunks.growth(id);
  return growth == 0 || bytes() + chunk_bytes() + growth <= limit_;
}

bool Index::has_memory_again() const {
  const std::uint64_t used = bytes();
  const std::uint64_t slots = used / sizeof(SlotTable::Slot);
  return sizes().keys * 20 < slots * 13 || used + used / 64 + chunk_bytes() <= limit_;
}

Index::Sizes Index::sizes() const {
  Sizes sizes;
  for (const Cell& cell : cells_) {
    const auto shard = cell.shard.lock();
    sizes.keys += shard->slots.used();
    sizes.cache_bytes += shard->hot.bytes();
  }
  return sizes;
}

}  // namespace once::journal
