// Records in memory by id: a slab of nodes, an index, and links with which the owner keeps its own lists. Once the slab
// has grown to the working set, records need no allocation. Not thread-safe: the shards of the memory store and of the
// journal each have a mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "core/record.hpp"
#include "store/flat_index.hpp"

namespace once::store {

class RecordTable {
 public:
  // A list head is a link too, which avoids special cases.
  struct Link {
    Link* previous = this;
    Link* next = this;

    Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    bool empty() const { return next == this; }
    void unlink() {
      previous->next = next;
      next->previous = previous;
      previous = next = this;
    }
    // Call on a list head: appends a link that is in no list, at the most recent end.
    void append(Link& link) {
      link.previous = previous;
      link.next = this;
      previous->next = &link;
      previous = &link;
    }
    // Moves a link from its list to the most recent end of this one.
    void take(Link& link) {
      link.unlink();
      append(link);
    }
  };

  struct Node : Link {
    FlatIndex::Number number = 0;
    std::uint32_t label = 0;                  // for the table's owner
    std::unique_ptr<const char[]> details{};  // for the table's owner
    OperationId id;
    Record record;  // expires_at is Time::max() in an unused node
  };

  // A node and its share of the index at the usual load.
  static constexpr std::size_t node_bytes = sizeof(Node) + 24;

  static std::size_t outcome_bytes(const OutcomeBytes& outcome) {
    // the string, its reference count, the allocator's overhead
    constexpr std::size_t overhead = sizeof(std::string) + 32;
    return outcome == nullptr ? 0 : outcome->capacity() + overhead;
  }

  Node* find(const OperationId& id) {
    return find(id, [&id](const Node& node) { return node.id == id; });
  }
  const Node* find(const OperationId& id) const {
    const auto number = index_.find(id, [&](FlatIndex::Number each) { return at(each).id == id; });
    return number ? &at(*number) : nullptr;
  }
  bool has(const OperationId& id) const { return find(id) != nullptr; }
  // The node for which is_same() is true, among those with the same hash bits.
  Node* find(const OperationId& id, auto&& is_same) {
    const auto number = index_.find(id, [&](FlatIndex::Number each) { return is_same(at(each)); });
    return number ? &at(*number) : nullptr;
  }

  // Adds a node that is in no list and has an empty record.
  Node& add(const OperationId& id) {
    if (free_.empty()) grow();
    Node& node = static_cast<Node&>(*free_.next);
    node.unlink();
    node.id = id;
    index_.insert(id, node.number);
    ++records_;
    bytes_ += node_bytes;
    return node;
  }

  void remove(Node& node) {
    bytes_ -= node_bytes + outcome_bytes(node.record.outcome);
    --records_;
    index_.erase(node.id, node.number);
    node.record.outcome.reset();
    node.record.expires_at = Time::max();
    free_.take(node);
  }

  void write(Node& node, Record&& record) {
    bytes_ -= outcome_bytes(node.record.outcome);
    node.record = std::move(record);
    bytes_ += outcome_bytes(node.record.outcome);
  }

  // The numbers of all nodes, used or not, are below this.
  std::size_t size() const { return chunks_.size() * chunk_nodes; }
  Node& at(std::size_t number) { return chunks_[number / chunk_nodes][number % chunk_nodes]; }
  const Node& at(std::size_t number) const { return chunks_[number / chunk_nodes][number % chunk_nodes]; }

  std::size_t records() const { return records_; }
  std::size_t bytes() const { return bytes_; }

  // Prefetches the entry.
  void fetch(const OperationId& id) const { index_.fetch(id); }

 private:
  static constexpr std::size_t chunk_nodes = 64;

  void grow() {
    const auto first = static_cast<FlatIndex::Number>(size());
    chunks_.push_back(std::make_unique<Node[]>(chunk_nodes));
    for (FlatIndex::Number i = 0; i < chunk_nodes; ++i) {
      Node& node = chunks_.back()[i];
      node.number = first + i;
      node.record.expires_at = Time::max();
      free_.append(node);
    }
  }

  FlatIndex index_;
  std::vector<std::unique_ptr<Node[]>> chunks_;
  Link free_;
  std::size_t records_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace once::store
