// The memory store: fast, bounded, and forgotten when the process ends. A sharded map; each shard has one small mutex,
// its records in a slab, and a byte limit of its own.
//
// What gives way when a shard is full, in this order:
// 1. expired records, as far as a short look finds them;
// 2. succeeded and failed ones, least recently claimed or finished first. A retry after that executes again: the limit
//    must be large enough for the keys of one TTL, and `evictions` says when it was not;
// 3. unknown and lapsed ones, oldest first. Forgetting these turns "unknown" into a second execution, so they go only
//    when nothing finished is left;
// never a live claim. If all that is left is live, a claim is refused as `full` and nothing changes. A finish is never
// refused: an outcome that cannot fit, or that would push out more than half of a shard, is recorded as succeeded with
// its body not kept, so a retry is answered and not executed.
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
  // no: the process is the owner of its claims, and their leases do not lapse whatever the terms say, unless these say
  // that the owner is outside.
  // yes: several gateways in one process share the store, as the tests and the simulator do.
  Shared shared = Shared::no;
};

struct MemoryStats {
  std::size_t records = 0;
  std::size_t bytes = 0;
  std::uint64_t evictions = 0;       // forgotten before their time
  std::uint64_t expired = 0;         // forgotten in time
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

  // Looks at up to `limit` records, where the last call stopped, and forgets those that expired; returns how many.
  // Every claim does a little of this, so nobody has to call it.
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
