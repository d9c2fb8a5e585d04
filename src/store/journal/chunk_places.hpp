// Where the chunks of streaming responses are on disk, by operation. Part of a shard of the index, which has the lock.
// Only records that have chunks are in it, so it is empty unless responses stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "core/record.hpp"
#include "store/journal/format.hpp"
#include "store/journal/slot_table.hpp"
#include "store/store.hpp"

namespace once::journal {

class ChunkPlaces {
 public:
  // Those of one claim, by number.
  struct List {
    Nonce nonce;
    Fence fence{0};
    Time needed_until;
    std::vector<Place> places;

    bool is_of(const Record& record) const {
      return nonce == record.nonce && fence == record.fence && may_have_chunks(record);
    }
  };

  bool empty() const { return lists_.empty(); }
  std::size_t bytes() const { return bytes_; }

  // Null: there is none. A slot has only a part of the id, and so have the lists.
  const List* find(const OperationId& id) const {
    const auto found = lists_.find(SlotTable::tag_of(id));
    return found == lists_.end() ? nullptr : &found->second;
  }
  List* find(const OperationId& id) {
    const auto found = lists_.find(SlotTable::tag_of(id));
    return found == lists_.end() ? nullptr : &found->second;
  }
  // If it belongs to the record as it stands.
  const List* find(const OperationId& id, const Record& record) const {
    const List* list = lists_.empty() ? nullptr : find(id);
    return list != nullptr && list->is_of(record) ? list : nullptr;
  }

  // The next chunk of this record, which has no list of another claim.
  void add(const OperationId& id, const Record& record, Place place) {
    const auto [at, is_new] = lists_.try_emplace(SlotTable::tag_of(id));
    List& list = at->second;
    if (is_new)
      list = {.nonce = record.nonce, .fence = record.fence, .needed_until = needed_until(record), .places = {}};
    bytes_ += is_new ? list_bytes : 0;
    const std::size_t before = list.places.capacity();
    list.places.push_back(place);
    bytes_ += (list.places.capacity() - before) * sizeof(Place);
  }
  // What the next add() adds to bytes(), at most.
  std::size_t growth(const OperationId& id) const {
    const List* list = find(id);
    if (list == nullptr) return list_bytes + sizeof(Place);
    return list->places.size() < list->places.capacity() ? 0 : list->places.capacity() * sizeof(Place);
  }

  // The record has changed to this, and still has its list.
  static void keep(List& list, const Record& record) { list.needed_until = needed_until(record); }
  // Its places.
  std::vector<Place> end(const SlotTable::Tag& tag) {
    const auto found = lists_.find(tag);
    if (found == lists_.end()) return {};
    std::vector<Place> places = std::move(found->second.places);
    bytes_ -= list_bytes + places.capacity() * sizeof(Place);
    lists_.erase(found);
    return places;
  }

  // Of lists that nobody can read any more.
  std::vector<SlotTable::Tag> expired(Time now) const {
    std::vector<SlotTable::Tag> tags;
    for (const auto& [tag, list] : lists_) {
      if (list.needed_until <= now) tags.push_back(tag);
    }
    return tags;
  }

  void for_each_place(auto&& visit) {
    for (auto& [tag, list] : lists_) {
      for (Place& place : list.places) visit(place);
    }
  }

 private:
  // Of the list itself, its node and its bucket.
  static constexpr std::size_t list_bytes = 128;

  static Time needed_until(const Record& record) {
    if (record.state == State::started && record.lease_until == Time::max()) return Time::max();
    return is_leased(record) ? std::max(record.expires_at, record.lease_until) : record.expires_at;
  }

  struct Hash {
    std::size_t operator()(const SlotTable::Tag& tag) const {
      std::size_t bits = 0;  // ids are random
      std::memcpy(&bits, tag.data() + tag.size() - sizeof bits, sizeof bits);
      return bits;
    }
  };
  std::unordered_map<SlotTable::Tag, List, Hash> lists_;
  std::size_t bytes_ = 0;
};

}  // namespace once::journal
