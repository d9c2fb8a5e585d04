// Chunks of streaming responses in memory, by operation. Used by the memory store and the simulated servers; the
// journal and the stores with a server have their own. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "core/record.hpp"
#include "store/store.hpp"

namespace once::store {

class ChunkLists {
 public:
  // Memory of all lists, including overhead.
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return lists_.empty(); }

  // The number of chunks of this claim.
  std::size_t count(const OperationId& id, const Nonce& nonce) const {
    const auto found = lists_.find(id);
    return found == lists_.end() || found->second.nonce != nonce ? 0 : found->second.chunks.size();
  }

  // Memory of this operation's list, including overhead.
  std::size_t bytes_of(const OperationId& id) const {
    if (lists_.empty()) return 0;
    const auto found = lists_.find(id);
    return found == lists_.end() ? 0 : found->second.bytes;
  }
  // Memory without overhead.
  std::size_t data_of(const OperationId& id) const {
    if (lists_.empty()) return 0;
    const auto found = lists_.find(id);
    std::size_t sum = 0;
    if (found == lists_.end()) return sum;
    for (const OutcomeBytes& chunk : found->second.chunks) sum += chunk->size();
    return sum;
  }

  // Adds the owner's next chunk; its number is at most count(). A repeated chunk is not added again.
  void append(const Op& op) {
    List& list = lists_[op.id];
    if (list.nonce != op.nonce) {
      bytes_ -= list.bytes;
      list = {.nonce = op.nonce, .chunks = {}, .bytes = list_overhead};
      bytes_ += list_overhead;
    }
    if (op.chunk < list.chunks.size()) return;
    const std::size_t added = cost(op.outcome);
    list.chunks.push_back(op.outcome);
    list.bytes += added;
    bytes_ += added;
  }

  // Adds the chunks that a read asks for.
  void read_into(Op& op, const Record& record) const {
    const auto found = lists_.find(op.id);
    if (found == lists_.end() || found->second.nonce != record.nonce || !may_have_chunks(record)) return;
    const std::vector<OutcomeBytes>& chunks = found->second.chunks;
    std::size_t taken = 0;
    for (std::size_t i = op.chunk; i < chunks.size(); ++i) {
      taken += chunks[i]->size();
      if (!op.chunks.empty() && taken > op.chunk_bytes) return;
      op.chunks.push_back(chunks[i]);
    }
  }

  // The record has changed, or is gone if null: drops chunks that no longer belong to it.
  void record_changed(const OperationId& id, const Record* record) {
    if (lists_.empty()) return;
    const auto found = lists_.find(id);
    if (found == lists_.end()) return;
    const List& list = found->second;
    if (record != nullptr && record->nonce == list.nonce && may_have_chunks(*record)) return;
    bytes_ -= list.bytes;
    lists_.erase(found);
  }

  static std::size_t cost(const OutcomeBytes& chunk) { return chunk->capacity() + chunk_overhead; }
  // The memory of a list besides its chunks.
  static constexpr std::size_t list_overhead = 160;

 private:
  // the string, its reference count, the allocator's overhead, the pointer
  static constexpr std::size_t chunk_overhead = 96;

  struct List {
    Nonce nonce{};
    std::vector<OutcomeBytes> chunks{};
    std::size_t bytes = 0;
  };

  std::unordered_map<OperationId, List> lists_;
  std::size_t bytes_ = 0;
};

}  // namespace once::store
