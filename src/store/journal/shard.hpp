// A shard of the journal's index: the place of the newest record of every key, and a cache of records: all live claims,
// and the most recent others up to a limit. Index has the shards' locks and says which call needs them.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "store/journal/chunk_places.hpp"
#include "store/journal/slot_table.hpp"
#include "store/record_table.hpp"

namespace once::journal {

struct Shard {
  SlotTable slots;
  RecordTable hot;
  ChunkPlaces chunks;
  RecordTable::Link claims;    // live, never evicted
  RecordTable::Link finished;  // least recently used first
  std::size_t cache_bytes = 0;
  std::size_t sweep_at = 0;

  static bool is_live(const Record& record) {
    return record.state == State::started && record.lease_until == Time::max();
  }

  // Caches the record, unless it is too large a part of `cache_bytes`.
  void keep(const OperationId& id, Record&& record) {
    RecordTable::Node* node = hot.find(id);
    const bool live = is_live(record);
    if (!live && RecordTable::outcome_bytes(record.outcome) > cache_bytes / 4) {
      if (node != nullptr) hot.remove(*node);
      return;
    }
    if (node == nullptr) node = &hot.add(id);
    hot.write(*node, std::move(record));
    (live ? claims : finished).take(*node);
    while (hot.bytes() > cache_bytes && !finished.empty()) {
      hot.remove(static_cast<RecordTable::Node&>(*finished.next));
    }
  }

  void forget(const OperationId& id) {
    if (RecordTable::Node* node = hot.find(id)) hot.remove(*node);
  }
  // Drops the cached record of a slot with this part of the id.
  void forget(const SlotTable::Tag& tag) {
    OperationId id;
    std::memcpy(id.bytes.data(), tag.data(), tag.size());
    const auto is_same = [&tag](const RecordTable::Node& node) {
      return std::memcmp(node.id.bytes.data(), tag.data(), tag.size()) == 0;
    };
    if (RecordTable::Node* node = hot.find(id, is_same)) hot.remove(*node);
  }
};

}  // namespace once::journal
