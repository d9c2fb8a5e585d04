// Chunks of responses that are still streaming, in memory, by operation. Part of the memory store and of the simulated
// servers; the journal and the stores behind a server keep theirs elsewhere. Not thread-safe.
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
  // What the lists take, with their own overhead.
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return lists_.empty(); }

  // Of this claim.
  std::size_t count(const OperationId& id, const Nonce& nonce) const {
    const auto found = lists_.find(id);
    return found == lists_.end() || found->second.nonce != nonce ? 0 : found->second.chunks.size();
  }

  // Of the list of this operation.
  std::size_t bytes_of(const OperationId& id) const {
    if (lists_.empty()) return 0;
    const auto found = lists_.find(id);
    return found == lists_.end() ? 0 : found->second.bytes;
  }
  // Without any overhead.
  std::size_t data_of(const OperationId& id) const {
    if (lists_.empty()) return 0;
    const auto found = lists_.find(id);
    std::size_t sum = 0;
    if (found == lists_.end()) return sum;
    for (const OutcomeBytes& chunk : found->second.chunks) sum += chunk->size();
    return sum;
  }

  // The owner's next chunk, at most count(). One that is there already is not added again.
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

  // Those that a read asks for.
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

  // The record has changed to this. Null: it is gone.
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
  // Of a first chunk, in addition.
  static constexpr std::size_t list_overhead = 160;

 private:
  static constexpr std::size_t chunk_overhead = 96;  // the string, its count of owners, the allocator's, the pointer

  struct List {
    Nonce nonce{};
    std::vector<OutcomeBytes> chunks{};
    std::size_t bytes = 0;
  };

  std::unordered_map<OperationId, List> lists_;
  std::size_t bytes_ = 0;
};

}  // namespace once::store
