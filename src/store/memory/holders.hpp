// The owners of a memory store's records (Op::holder): how many bytes each holder has, and which of its records can be
// evicted, least recently used first. Shared by all shards.
//
// Locks, in this order: a shard's, then a holder's or the one of all holders, never both of these. A node is linked and
// unlinked by threads that have its shard's lock, so a shard knows without looking whether its nodes are linked.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "core/operation.hpp"
#include "store/memory/budget.hpp"
#include "store/record_table.hpp"

namespace once::memory {

// The memory of a record, or of all records of a holder. Modulo 2^64, so that adding a negative number gives back.
struct Usage {
  std::size_t bytes = 0;
  std::size_t pinned = 0;   // bytes that cannot be evicted
  std::size_t running = 0;  // pinned bytes of chunks whose response is in progress

  Usage operator-(const Usage& other) const {
    return {.bytes = bytes - other.bytes, .pinned = pinned - other.pinned, .running = running - other.running};
  }
};

class Holder {
 public:
  std::size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::size_t running() const { return running_.load(std::memory_order_relaxed); }
  // The pinned bytes with their share of the labels.
  std::size_t pinned() const;
  // The record to evict first.
  std::optional<OperationId> oldest() const;

 private:
  friend class Holders;
  using Link = RecordTable::Link;

  struct InClass : Link {
    Holder* holder = nullptr;
  };

  std::atomic<std::size_t> bytes_{0};    // with labels
  std::atomic<std::size_t> labels_{0};   // bytes of labels
  std::atomic<std::size_t> pinned_{0};   // see Usage
  std::atomic<std::size_t> running_{0};  //
  mutable std::mutex mutex_;
  Link evictable_;  // nodes
  std::atomic<std::size_t> evictable_count_{0};
  std::atomic<std::size_t> class_{0};  // the class in which it is listed; 0: not listed
  InClass in_class_;                   // guarded by Holders::mutex_
  std::weak_ptr<Holder> self_;         //
  std::size_t owners_ = 0;             //
};

class Holders {
 public:
  using Node = RecordTable::Node;

  explicit Holders(Budget& budget) : budget_(budget) {}

  // The memory of a holder itself, part of the budget while the holder has owners.
  static constexpr std::size_t bytes_of_holder = sizeof(Holder) + 128;

  // Each take() needs one give_back().
  std::shared_ptr<Holder> take(const TenantTag& tag);
  void give_back(const TenantTag& tag);
  // Null: there is no such holder.
  std::shared_ptr<Holder> find(const TenantTag& tag);
  // The holder of records without a tag.
  std::shared_ptr<Holder> untagged() { return {std::shared_ptr<void>(), &untagged_}; }  // lives as long as this

  void add(Holder& holder, const Usage& usage);
  // Adds bytes of labels, modulo 2^64, so that adding a negative number gives them back.
  void add_label(Holder& holder, std::size_t bytes);

  enum class End : std::uint8_t { newest, oldest };
  void link(Holder& holder, Node& node, End end);
  // Moves the node to that end.
  void link_again(Holder& holder, Node& node, End end);
  void unlink(Holder& holder, Node& node);

  // One of the holders with the most bytes, within an eighth, that has something to evict. Null: there is none.
  std::shared_ptr<Holder> heaviest();

 private:
  // Eight classes per power of two.
  static constexpr std::size_t classes = std::size_t{8} * 64;
  static std::size_t class_of(std::size_t bytes);
  void place(Holder& holder);

  Budget& budget_;
  Holder untagged_;
  std::mutex mutex_;
  std::map<TenantTag, std::shared_ptr<Holder>> by_tag_;
  std::array<RecordTable::Link, classes> by_class_;
  std::size_t top_ = 0;  // all classes above this are empty
};

}  // namespace once::memory
