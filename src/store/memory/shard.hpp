// One shard of the memory store: a mutex, a table of records, and lists of its nodes in the order of eviction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

#include "store/chunk_lists.hpp"
#include "store/memory/labels.hpp"
#include "store/memory/memory_store.hpp"
#include "store/record_table.hpp"
#include "store/store.hpp"

namespace once::memory {

class alignas(64) MemoryShard {
 public:
  MemoryShard(std::size_t max_bytes, Shared shared, Fence last_fence)
      : max_bytes_(max_bytes), shared_(shared), last_fence_(static_cast<std::uint64_t>(last_fence)) {}

  void execute(Op& op, Time now);

  struct Swept {
    std::size_t looked = 0;
    std::size_t removed = 0;
    bool to_the_end = false;
  };
  // From where the last one stopped, to the end of the slab at most.
  Swept sweep(std::size_t limit, Time now);

  void add_to(MemoryStats& total) const;

  // For Search: up to `most` nodes from number `at` on. Returns where to go on; npos: that was all.
  static constexpr std::size_t npos = ~std::size_t{0};
  std::size_t visit(std::size_t at, std::size_t most, Time now, const std::function<bool(KeyInfo&&)>& take);

 private:
  using Link = RecordTable::Link;
  using Node = RecordTable::Node;

  void claim(Op& op, Time now);
  void renew_lease(Op& op, Time now);
  void finish_claim(Op& op, Time now);
  void release_claim(Op& op, Time now);
  void forget_record(Op& op, Time now);
  void lookup(Op& op, Time now);
  void append_chunk(Op& op, Time now);

  // Null if there is no record, or it is forgotten. Turns an expired record into a tombstone, or removes it.
  Node* find(const OperationId& id, Time now);
  void write(Node& node, Record&& record);
  void set_labels(Node& node, std::string_view tenant, std::string_view route_label);
  void remove(Node& node);
  std::size_t bytes() const { return table_.bytes() + labels_.bytes() + details_bytes_ + chunks_.bytes(); }
  // Moves it to the most recent end of the list for its state.
  void file(Node& node);
  // Whether the claim's lease lasts until the process ends.
  bool never_lapses(const Op& op) const { return shared_ == Shared::no && op.terms.owner == Owner::process; }
  // Whether a record remains.
  bool age_or_forget(Node& node, Time now);
  void begin_round();
  void look_at_some(std::size_t limit, Time now);

  // Whether `bytes` more fit, after evicting what may be evicted except `keep`.
  bool make_room(std::size_t bytes, const Node* keep, Time now);
  Node* victim(const Node* keep, Time now);
  void fetch_next_victims() const;

  const std::size_t max_bytes_;
  const Shared shared_;

  mutable std::mutex mutex_;
  RecordTable table_;
  Labels labels_;  // of its nodes
  std::size_t details_bytes_ = 0;
  ChunkLists chunks_;     // of its nodes
  Link claims_;           // started, for as long as the process lives
  Link leased_;           // started, with a lease that can lapse; least recently renewed first
  Link tombstones_;       // evicted first, because they have no response; oldest first
  Link finished_;         // succeeded, failed; least recently used first
  Link unresolved_;       // unknown; oldest first
  std::size_t hand_ = 0;  // where the sweep goes on
  std::uint64_t claims_seen_ = 0;
  Time nothing_ages_before_ = Time::max();  // no scan for expired records before this time
  Time earliest_looked_at_ = Time::max();   // earliest expiry seen or written during this scan
  std::uint64_t last_fence_;                // outlives every record, so that no fence is used twice
  MemoryStats stats_;
};

}  // namespace once::memory
