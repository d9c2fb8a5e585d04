// The memory store: fast, bounded, and lost when the process ends. A sharded map: each shard has a mutex and a slab of
// records. The bytes of all shards are counted together.
//
// A full store evicts in this order:
// 1. expired records, as far as a short scan finds them;
// 2. succeeded and failed ones of the holder that has the most (Op::holder), least recently claimed or finished first,
//    so that a holder that floods the store loses its own answers. A later retry executes again: the limit must be
//    large enough for the keys of one TTL, and `evictions` counts when it was not. The beginning of a response whose
//    end is unknown is evicted like an answer, and its record stays.
// A holder that has more than all the others only evicts its own records.
// Records that are started or unknown are never evicted. If nothing else is left for a claim, or if such records of its
// holder fill three quarters of the store, it is refused as `full` and nothing changes. A finish is never refused:
// an outcome that does not fit, or is larger than half of the store, is recorded as succeeded without its body, so that
// a retry is answered and not executed. Chunks of responses in progress take half of the store at most, and a
// third for one holder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "store/memory/budget.hpp"
#include "store/memory/holders.hpp"
#include "store/search.hpp"
#include "store/store.hpp"

namespace once::memory {

struct MemoryLimits {
  std::size_t max_bytes = std::size_t{256} << 20U;  // records, outcomes and overhead
  // A power of two. A small max_bytes gets fewer, because each takes some memory that is not counted.
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
  void notify_of_evictions(std::function<void(const Evicted&)> notify) override { on_evicted_ = std::move(notify); }
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
  void execute(Op& op, Time now);

  const Clock& clock_;
  const Shared shared_;
  Budget budget_;
  Holders holders_{budget_};
  std::function<void(const Evicted&)> on_evicted_;
  std::vector<std::unique_ptr<MemoryShard>> shards_;
  std::atomic<std::size_t> next_sweep_{0};
};

}  // namespace once::memory
