// Where the chunks of responses are on disk, by operation. Part of a shard of the index, which has the lock. Only
// records that have chunks are in it, so it is empty unless responses stream.
//
// Memory: list_bytes a response, and 8 bytes a chunk; up to 16 while the response streams, because its list grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/record.hpp"
#include "store/journal/format.hpp"
#include "store/journal/slot_table.hpp"
#include "store/store.hpp"

namespace once::journal {

class ChunkPlaces {
 public:
  // The chunks of one claim, by number.
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

  // Null: there is none. Like slots, lists are found by a part of the id only.
  const List* find(const OperationId& id) const {
    const auto found = lists_.find(SlotTable::tag_of(id));
    return found == lists_.end() ? nullptr : &found->second;
  }
  List* find(const OperationId& id) {
    const auto found = lists_.find(SlotTable::tag_of(id));
    return found == lists_.end() ? nullptr : &found->second;
  }
  // The list, if it belongs to this version of the record.
  const List* find(const OperationId& id, const Record& record) const {
    const List* list = lists_.empty() ? nullptr : find(id);
    return list != nullptr && list->is_of(record) ? list : nullptr;
  }

  // The number of chunks of this record.
  std::size_t count(const OperationId& id, const Record& record) const {
    const List* list = find(id, record);
    return list == nullptr ? 0 : list->places.size();
  }

  // Adds the next chunk of this record, which has no list of another claim.
  void add(const OperationId& id, const Record& record, Place place) {
    List& list = list_of(id, record);
    const std::size_t before = list.places.capacity();
    list.places.push_back(place);
    bytes_ += (list.places.capacity() - before) * sizeof(Place);
  }
  // Adds all chunks of this record, which has none yet.
  void add_all(const OperationId& id, const Record& record, std::vector<Place> places) {
    List& list = list_of(id, record);
    list.places = std::move(places);
    list.places.shrink_to_fit();
    bytes_ += list.places.capacity() * sizeof(Place);
  }
  // The most that the next add() adds to bytes().
  std::size_t growth(const OperationId& id) const {
    const List* list = find(id);
    if (list == nullptr) return list_bytes + sizeof(Place);
    return list->places.size() < list->places.capacity() ? 0 : list->places.capacity() * sizeof(Place);
  }

  // The record has changed, and its list stays.
  void keep(List& list, const Record& record) {
    list.needed_until = needed_until(record);
    if (record.state == State::started) return;
    // Nothing more is appended, and the list stays as long as the record.
    bytes_ -= list.places.capacity() * sizeof(Place);
    list.places.shrink_to_fit();
    bytes_ += list.places.capacity() * sizeof(Place);
  }
  // Removes the list and returns its places.
  std::vector<Place> end(const SlotTable::Tag& tag) {
    const auto found = lists_.find(tag);
    if (found == lists_.end()) return {};
    std::vector<Place> places = std::move(found->second.places);
    bytes_ -= list_bytes + places.capacity() * sizeof(Place);
    lists_.erase(found);
    return places;
  }

  // Lists that no reader can use any more.
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
  // The size of a list, its node and its bucket.
  static constexpr std::size_t list_bytes = 128;

  List& list_of(const OperationId& id, const Record& record) {
    const auto [at, is_new] = lists_.try_emplace(SlotTable::tag_of(id));
    if (is_new) {
      at->second = {.nonce = record.nonce, .fence = record.fence, .needed_until = needed_until(record), .places = {}};
      bytes_ += list_bytes;
    }
    return at->second;
  }

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
