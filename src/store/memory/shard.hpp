// One shard of the memory store: a mutex and a table of records. Records that can be evicted are listed by holder
// (holders.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "store/chunk_lists.hpp"
#include "store/memory/budget.hpp"
#include "store/memory/holders.hpp"
#include "store/memory/labels.hpp"
#include "store/memory/memory_store.hpp"
#include "store/record_table.hpp"
#include "store/store.hpp"

namespace once::memory {

class alignas(64) MemoryShard {
 public:
  MemoryShard(Budget& budget, Holders& holders, Shared shared, Fence last_fence)
      : budget_(budget),
        holders_(holders),
        shared_(shared),
        labels_(holders),
        last_fence_(static_cast<std::uint64_t>(last_fence)) {}

  // What an op needs before it can be executed.
  struct Need {
    std::size_t bytes = 0;
    std::shared_ptr<Holder> holder{};  // the op's holder; null: it has no records yet
  };
  // What was reserved for an op.
  struct Grant {
    std::size_t bytes = 0;
    bool is_last = false;  // nothing more can be evicted
  };
  // nullopt: the op was executed. Otherwise nothing has changed: evict, and call it again.
  std::optional<Need> execute(Op& op, Time now, Grant grant);

  // Removes the record, or the part of a response in a record with an unknown outcome, unless it has changed and cannot
  // be evicted now.
  void evict(const OperationId& id, Time now, const std::function<void(const Evicted&)>& notify);

  struct Swept {
    std::size_t looked = 0;
    std::size_t removed = 0;
    bool to_the_end = false;
  };
  // Continues where the last sweep stopped, at most to the end of the slab.
  Swept sweep(std::size_t limit, Time now);

  void add_to(MemoryStats& total) const;

  // For Search: visits up to `most` nodes from number `at` on. Returns where to continue; npos: that was the last one.
  static constexpr std::size_t npos = ~std::size_t{0};
  std::size_t visit(std::size_t at, std::size_t most, Time now, const std::function<bool(KeyInfo&&)>& take);

 private:
  using Node = RecordTable::Node;

  void claim(Op& op, Time now);
  void renew_lease(Op& op, Time now);
  void finish_claim(Op& op, Time now);
  void release_claim(Op& op, Time now);
  void forget_record(Op& op, Time now);
  void lookup(Op& op, Time now);
  void append_chunk(Op& op, Time now);

  // Null if the record does not exist or is forgotten. Turns an expired record into a tombstone, or removes it.
  Node* find(const OperationId& id, Time now);
  Node& add(const Op& claim);
  void write(Node& node, Record&& record);
  void set_details(Node& node, RequestText details);
  void remove(Node& node);
  void relabel(Node& node, const Op& claim);
  Holder& holder_of(const Node& node) const { return *labels_.holder_of(node.label); }
  std::size_t bytes() const { return table_.bytes() + labels_.bytes() + details_bytes_ + chunks_.bytes(); }
  static std::size_t details_of(const Node& node) { return node.details == nullptr ? 0 : cost_of(node.details.get()); }
  Usage usage_of(const Node& node) const;
  // Updates the accounts of its holder.
  void account(const Node& node, const Usage& before) { holders_.add(holder_of(node), usage_of(node) - before); }
  // Whether the node should be linked at its holder.
  bool is_evictable(const Node& node) const;
  void link_as_it_is(Node& node, bool was_linked);
  // Whether the claim's lease lasts until the process ends.
  bool never_lapses(const Op& op) const { return shared_ == Shared::no && op.terms.owner == Owner::process; }
  // Turns an expired record into a tombstone, or removes it once it is forgotten. Returns whether a record remains.
  bool age_or_forget(Node& node, Time now);
  void begin_round();
  void look_at_some(std::size_t limit, Time now);

  enum class Room : std::uint8_t {
    yes,
    no,
    later,  // the op needs something evicted first
  };
  Room take_room(std::size_t bytes, Time now);
  // `node` is the record of the key; null: the key is new.
  Room take_room_for_claim(const Op& claim, const Node* node, Time now);
  Room take_room_for_chunk(const Node& node, std::size_t bytes, Time now);
  // Whether the holder may have `bytes` more that cannot be evicted.
  bool may_pin(const Holder& holder, std::size_t bytes) const {
    const std::size_t most = budget_.most_pinned_by_one();
    return holder.bytes() + bytes <= most || holder.pinned() + bytes <= most;
  }
  void settle_budget();

  Budget& budget_;
  Holders& holders_;
  const Shared shared_;

  mutable std::mutex mutex_;
  RecordTable table_;
  Labels labels_;  // of its nodes
  std::size_t details_bytes_ = 0;
  ChunkLists chunks_;         // of its nodes
  std::size_t budgeted_ = 0;  // reserved bytes; equal to bytes(), except while an op is executed
  std::optional<Need> need_;
  Grant grant_;           // of the current op
  std::size_t hand_ = 0;  // where the sweep continues
  std::uint64_t claims_seen_ = 0;
  Time nothing_ages_before_ = Time::max();  // no scan for expired records before this time
  Time earliest_looked_at_ = Time::max();   // earliest expiry seen or written during this scan
  std::uint64_t last_fence_;                // outlives every record, so that no fence is used twice
  MemoryStats stats_;
};

}  // namespace once::memory
