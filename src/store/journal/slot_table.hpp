// The journal's index: the place on disk of each operation's newest record. Open addressing with linear probing. A slot
// has 24 bytes, so that a live key costs 34 to 48 bytes in total. A slot has 96 bits of the id: among ten million keys
// the chance of a collision is 10^-15, and readers of the record compare the rest.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "store/journal/format.hpp"

namespace once::journal {

// A segment's number relative to the log's base, so that few bits suffice.
enum class SegmentOrdinal : std::uint32_t {};

// A place on disk: segment, offset, approximate size of the record, its state (so that records in one state are found
// without reading all), and for a success whether its body is in chunks. Later places compare greater.
class Place {
 public:
  Place() = default;
  Place(SegmentOrdinal segment, std::uint64_t offset, std::uint64_t frame_size, State state = State::started,
        BodyKept kept = BodyKept::yes)
      : bits_(std::uint64_t{std::to_underlying(segment)} << segment_shift | offset / frame_alignment << offset_shift |
              size_class(frame_size) << size_shift | state_bits(state, kept)) {}

  bool empty() const { return bits_ == 0; }
  SegmentOrdinal segment() const { return SegmentOrdinal{static_cast<std::uint32_t>(bits_ >> segment_shift)}; }
  // The same place after the log's base moved by this many segments; nullopt if its segment is no longer numbered.
  Place counted_later(std::uint32_t segments) const {
    Place place;
    if (std::to_underlying(segment()) > segments) place.bits_ = bits_ - (std::uint64_t{segments} << segment_shift);
    return place;
  }
  std::uint64_t offset() const { return (bits_ >> offset_shift & offset_mask) * frame_alignment; }
  // The size, rounded down by less than an eighth. Always the same number, so that additions and subtractions match.
  std::uint64_t about_size() const {
    const std::uint64_t size = bits_ >> size_shift;
    return (8 + (size & 7U)) << (size >> 3U & 31U);
  }
  State state() const {
    return is_in_chunks() ? State::succeeded : State{static_cast<std::uint8_t>(bits_ & state_mask)};
  }
  // Whether it is a success whose body is in chunks.
  bool is_in_chunks() const { return (bits_ & state_mask) == succeeded_in_chunks; }
  auto operator<=>(const Place&) const = default;

  static constexpr std::uint64_t largest_offset = (std::uint64_t{1} << 29U) * frame_alignment;
  static constexpr SegmentOrdinal last_segment{(std::uint32_t{1} << 24U) - 1};

 private:
  static constexpr unsigned size_shift = 3;
  static constexpr unsigned offset_shift = 11;
  static constexpr unsigned segment_shift = 40;
  static constexpr std::uint64_t offset_mask = (std::uint64_t{1} << 29U) - 1;
  static constexpr std::uint64_t state_mask = (std::uint64_t{1} << size_shift) - 1;

  // Stored in the bits of the state, as one more value besides those of State.
  static constexpr std::uint64_t succeeded_in_chunks = 5;
  static_assert(succeeded_in_chunks > std::to_underlying(State::tombstone) && succeeded_in_chunks <= state_mask);

  static std::uint64_t state_bits(State state, BodyKept kept) {
    const bool in_chunks = state == State::succeeded && kept == BodyKept::in_chunks;
    return in_chunks ? succeeded_in_chunks : std::uint64_t{std::to_underlying(state)};
  }

  static std::uint64_t size_class(std::uint64_t size) {
    size = std::clamp<std::uint64_t>(size, 8, std::uint64_t{15} << 31U);
    const auto exponent = static_cast<unsigned>(std::bit_width(size)) - 4;
    return exponent << 3U | (size >> exponent & 7U);
  }

  std::uint64_t bits_ = 0;
};

// A place that stays valid when the log's base moves. No two records ever have the same address: segment numbers only
// grow, and a segment is written from front to back.
struct Address {
  SegmentNumber segment{};
  std::uint64_t offset = 0;
  auto operator<=>(const Address&) const = default;
};

// When a record is forgotten, in whole seconds, rounded up; `never` while its owner is executing.
enum class ExpirySecond : std::uint32_t {};
inline constexpr ExpirySecond removed_already{0};
inline constexpr ExpirySecond never_expires{0xffff'ffff};
inline ExpirySecond expiry_second(Time at) {
  const auto milliseconds = std::clamp<std::int64_t>(at.time_since_epoch().count(), 1, 0xffff'fffeLL * 1000);
  return ExpirySecond{static_cast<std::uint32_t>((milliseconds + 999) / 1000)};
}
inline bool has_passed(ExpirySecond expiry, Time now) {
  return expiry != never_expires && std::int64_t{std::to_underlying(expiry)} * 1000 <= now.time_since_epoch().count();
}

class SlotTable {
 public:
  static constexpr std::size_t tag_size = 12;
  using Tag = std::array<std::uint8_t, tag_size>;
  static Tag tag_of(const OperationId& id) {
    Tag tag;
    std::memcpy(tag.data(), id.bytes.data(), tag_size);
    return tag;
  }
  struct Slot {
    Tag tag{};
    ExpirySecond expires{};
    Place place;  // empty if the slot is
  };
  static_assert(sizeof(Slot) == 24);

  // Valid until the next insert or erase.
  Slot* find(const OperationId& id) {
    Slot& slot = slots_[seek(id)];
    return slot.place.empty() ? nullptr : &slot;
  }
  const Slot* find(const OperationId& id) const {
    const Slot& slot = slots_[seek(id)];
    return slot.place.empty() ? nullptr : &slot;
  }
  bool has(const OperationId& id) const { return !slots_[seek(id)].place.empty(); }

  // The id must not be in the table.
  Slot& insert(const OperationId& id, ExpirySecond expires, Place place) {
    if (must_grow()) resize(grown());
    const Slot slot{.tag = tag_of(id), .expires = expires, .place = place};
    ++used_;
    return put(slot);
  }

  void erase(Slot& slot) {
    auto gap = static_cast<std::size_t>(&slot - slots_.data());
    // Moves displaced slots back into the gap, so that no search ends early.
    for (std::size_t at = next(gap); !slots_[at].place.empty(); at = next(at)) {
      if (distance(home(slots_[at].tag.data()), at) < distance(gap, at)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = Slot();
    --used_;
  }

  // Visits slots by the first bits of their ids, from `from` up to but excluding `to` (2^32: all), wherever inserts and
  // erases have moved them.
  void visit(std::uint64_t from, std::uint64_t to, auto&& see) const {
    const std::size_t last = to > 0xffff'ffffU ? slots_.size() : home_of(static_cast<std::uint32_t>(to));
    std::size_t at = home_of(static_cast<std::uint32_t>(from));
    for (std::size_t seen = 0, begin = at; seen < slots_.size(); ++seen, at = next(at)) {
      if (slots_[at].place.empty()) {
        if (begin + seen >= last) return;
        continue;
      }
      const std::uint64_t bits = bits_of(slots_[at].tag.data());
      if (bits >= from && bits < to) see(bits, slots_[at]);
    }
  }

  // Call after many erases. Moves every slot.
  void give_back_memory() {
    if (slots_.size() > least_slots && used_ * 4 < slots_.size()) resize(std::max(least_slots, used_ * 2));
  }

  std::size_t used() const { return used_; }
  std::size_t size() const { return slots_.size(); }
  Slot& at(std::size_t i) { return slots_[i]; }
  std::size_t bytes() const { return slots_.size() * sizeof(Slot); }
  // What the next insert would add to bytes().
  std::size_t growth() const { return must_grow() ? (grown() - slots_.size()) * sizeof(Slot) : 0; }

  // Prefetches the slot.
  void fetch(const OperationId& id) const { __builtin_prefetch(&slots_[home(id.bytes.data())]); }

 private:
  static constexpr std::size_t least_slots = 16;

  // Slots are in the order of their ids, apart from collisions, so growing reads and writes sequentially.
  static std::uint32_t bits_of(const std::uint8_t* id) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, id, sizeof bits);
    return bits;
  }
  std::size_t home_of(std::uint32_t bits) const {
    return static_cast<std::size_t>(std::uint64_t{bits} * slots_.size() >> 32U);
  }
  std::size_t home(const std::uint8_t* id) const { return home_of(bits_of(id)); }
  std::size_t next(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }
  std::size_t distance(std::size_t from, std::size_t to) const {
    return to >= from ? to - from : to + slots_.size() - from;
  }

  // The position of the slot with this id, or of the empty slot where the search ends.
  std::size_t seek(const OperationId& id) const {
    std::size_t at = home(id.bytes.data());
    while (!slots_[at].place.empty() && std::memcmp(slots_[at].tag.data(), id.bytes.data(), tag_size) != 0) {
      at = next(at);
    }
    return at;
  }

  bool must_grow() const { return (used_ + 1) * 10 > slots_.size() * 7; }
  std::size_t grown() const { return slots_.size() + slots_.size() / 5 * 2 + 1; }  // from 70% to 50% full

  Slot& put(const Slot& slot) {
    std::size_t at = home(slot.tag.data());
    while (!slots_[at].place.empty()) at = next(at);
    return slots_[at] = slot;
  }

  void resize(std::size_t size) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(size));
    for (const Slot& slot : old) {
      if (!slot.place.empty()) put(slot);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(least_slots);
  std::size_t used_ = 0;
};

}  // namespace once::journal
