// The memory store: fast, bounded, and lost when the process ends. A sharded map: each shard has a mutex, a slab of
// records and its own byte limit.
//
// A full shard evicts in this order:
// 1. expired records, as far as a short scan finds them;
// 2. succeeded and failed ones, least recently claimed or finished first. A later retry executes again: the limit must
//    be large enough for the keys of one TTL, and `evictions` counts when it was not;
// 3. unknown and lapsed ones, oldest first. A later retry executes a second time, so they are evicted only when no
//    finished ones are left.
// Live claims are never evicted. If only live claims are left, a claim is refused as `full` and nothing changes. A
// finish is never refused: an outcome that does not fit, or would evict more than half of a shard, is recorded as
// succeeded without its body, so that a retry is answered and not executed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::memory {

struct MemoryLimits {
  std::size_t max_bytes = std::size_t{256} << 20U;  // records, outcomes and overhead
  // A power of two. Fewer are made when max_bytes is small, so that each has room for a few large outcomes (4 MiB).
  std::size_t shards = 64;
  // no: the process owns its claims, and their leases never lapse, unless the terms say that the owner is outside the
  // process.
  // yes: several gateways in one process share the store, as the tests and the simulator do.
  Shared shared = Shared::no;
};

struct MemoryStats {
  std::size_t records = 0;
  std::size_t bytes = 0;
  std::uint64_t evictions = 0;       // removed before they expired
  std::uint64_t expired = 0;         // removed after they expired
  std::uint64_t refused = 0;         // claims answered `full`
  std::uint64_t bodies_dropped = 0;  // outcomes that did not fit
};

class MemoryShard;

class MemoryStore final : public Store, public Search {
 public:
  explicit MemoryStore(const Clock& clock, const MemoryLimits& limits = MemoryLimits());
  ~MemoryStore() override;

  void execute(std::span<Op* const> batch) override;
  Traits traits() const override;
  Search* search() override { return this; }

  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

  // Scans up to `limit` records from where the last call stopped, and removes expired ones; returns how many. Every
  // claim does a little of this, so calling it is optional.
  std::size_t sweep(std::size_t limit);

  MemoryStats stats() const;
  StoreReport report() const override;

 private:
  MemoryShard& shard_of(const OperationId& id);

  const Clock& clock_;
  const Shared shared_;
  const std::size_t max_bytes_;
  std::vector<std::unique_ptr<MemoryShard>> shards_;
  std::atomic<std::size_t> next_sweep_{0};
};

}  // namespace once::memory
