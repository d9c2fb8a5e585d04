// From an operation id to the number of its node: open addressing with linear probing. A slot keeps 32 bits of the id,
// so that a probe past another id touches no node, and growing or closing a gap needs none either. Ids are uniformly
// random, so their bits are the hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/bytes.hpp"

namespace once::store {

class FlatIndex {
 public:
  using Number = std::uint32_t;

  // is_same(number) returns whether the node has the id; it is called only for likely candidates.
  std::optional<Number> find(const OperationId& id, auto&& is_same) const {
    const std::uint32_t tag = tag_of(id);
    for (std::size_t at = tag & mask_; slots_[at].number != empty; at = (at + 1) & mask_) {
      if (slots_[at].tag == tag && is_same(slots_[at].number)) return slots_[at].number;
    }
    return std::nullopt;
  }

  // Prefetches the slot.
  void fetch(const OperationId& id) const { __builtin_prefetch(&slots_[tag_of(id) & mask_]); }

  void insert(const OperationId& id, Number number) {
    if ((size_ + 1) * 8 > slots_.size() * 5) grow();
    place({tag_of(id), number});
    ++size_;
  }

  void erase(const OperationId& id, Number number) {
    std::size_t gap = tag_of(id) & mask_;
    while (slots_[gap].number != number) gap = (gap + 1) & mask_;
    // Moves displaced entries back into the gap, so that no probe ends early.
    for (std::size_t at = (gap + 1) & mask_; slots_[at].number != empty; at = (at + 1) & mask_) {
      const std::size_t home = slots_[at].tag & mask_;
      if (((at - home) & mask_) < ((at - gap) & mask_)) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap].number = empty;
    --size_;
  }

 private:
  static constexpr Number empty = ~Number{0};

  struct Slot {
    std::uint32_t tag = 0;
    Number number = empty;
  };

  static std::uint32_t tag_of(const OperationId& id) {
    std::uint32_t tag = 0;
    std::memcpy(&tag, id.bytes.data(), sizeof tag);
    return tag;
  }

  void place(Slot slot) {
    std::size_t at = slot.tag & mask_;
    while (slots_[at].number != empty) at = (at + 1) & mask_;
    slots_[at] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.size() * 2, Slot());
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.number != empty) place(slot);
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(16);
  std::size_t mask_ = 15;
  std::size_t size_ = 0;
};

}  // namespace once::store
