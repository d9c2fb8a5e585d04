#include "store/memory/memory_store.hpp"

#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "store/memory/shard.hpp"

namespace once::memory {

namespace {

constexpr std::size_t bytes_per_shard = std::size_t{4} << 20U;

std::size_t shard_count(const MemoryLimits& limits) {
  ONCE_ASSERT(std::has_single_bit(limits.shards));
  std::size_t shards = limits.shards;
  while (shards > 1 && limits.max_bytes / shards < bytes_per_shard) shards /= 2;
  return shards;
}

// Fences begin with the time, so that those of a restarted process are higher than all earlier ones, which backends may
// remember. Enough for a million claims per second and shard.
Fence fence_before(Time now) {
  constexpr std::uint64_t claims_per_millisecond = 1024;
  return Fence{static_cast<std::uint64_t>(now.time_since_epoch().count()) * claims_per_millisecond};
}

// A holder loses responses only to holders that have at most as many bytes, compared within an eighth like the classes.
// A holder with very few bytes may displace any other.
bool may_displace(const Holder& heaviest, const MemoryShard::Need& need) {
  constexpr std::size_t next_to_nothing = 4096;
  const std::size_t weight = need.bytes + (need.holder == nullptr ? 0 : need.holder->bytes());
  if (&heaviest == need.holder.get() || weight <= next_to_nothing) return true;
  return heaviest.bytes() >= weight - weight / 8;
}

// The holder of the op, if it has a record to evict.
std::shared_ptr<Holder> own_evictable(const MemoryShard::Need& need) {
  return need.holder != nullptr && need.holder->oldest() ? need.holder : nullptr;
}

}  // namespace

MemoryStore::MemoryStore(const Clock& clock, const MemoryLimits& limits)
    : clock_(clock), shared_(limits.shared), budget_(limits.max_bytes) {
  const std::size_t shards = shard_count(limits);
  shards_.reserve(shards);
  for (std::size_t i = 0; i < shards; ++i) {
    shards_.push_back(std::make_unique<MemoryShard>(budget_, holders_, limits.shared, fence_before(clock.now())));
  }
}

MemoryStore::~MemoryStore() = default;

Traits MemoryStore::traits() const {
  return {.durable = Durable::no, .shared = shared_, .inline_execution = true, .evicts = true};
}

MemoryShard& MemoryStore::shard_of(const OperationId& id) {
  // Use other bytes than the index of a shard, or every shard would fill only a part of its index.
  std::uint32_t bits = 0;
  std::memcpy(&bits, id.bytes.data() + sizeof bits, sizeof bits);
  return *shards_[bits & (shards_.size() - 1)];
}

void MemoryStore::execute(std::span<Op* const> batch) {
  const Time now = clock_.now();
  for (Op* op : batch) execute(*op, now);
}

void MemoryStore::execute(Op& op, Time now) {
  MemoryShard& shard = shard_of(op.id);
  MemoryShard::Grant grant;
  while (const auto need = shard.execute(op, now, grant)) {
    grant = {.bytes = need->bytes, .is_last = false};
    while (!grant.is_last && !budget_.try_take(need->bytes)) {
      std::shared_ptr<Holder> victim = holders_.heaviest();
      if (victim != nullptr && !may_displace(*victim, *need)) victim = own_evictable(*need);
      if (victim == nullptr) {
        grant = {.bytes = 0, .is_last = true};
      } else if (const auto id = victim->oldest()) {
        shard_of(*id).evict(*id, now, on_evicted_);
      }
    }
  }
}

std::size_t MemoryStore::sweep(std::size_t limit) {
  const Time now = clock_.now();
  std::size_t removed = 0;
  for (std::size_t visited = 0; visited < shards_.size() && limit > 0; ++visited) {
    const std::size_t at = next_sweep_.load(std::memory_order_relaxed);
    const MemoryShard::Swept swept = shards_[at % shards_.size()]->sweep(limit, now);
    limit -= swept.looked;
    removed += swept.removed;
    if (swept.to_the_end) next_sweep_.store(at + 1, std::memory_order_relaxed);
  }
  return removed;
}

MemoryStats MemoryStore::stats() const {
  MemoryStats total;
  for (const auto& shard : shards_) shard->add_to(total);
  total.bytes = budget_.used();
  return total;
}

StoreReport MemoryStore::report() const {
  const MemoryStats seen = stats();
  StoreReport out;
  out.gauge("once_store_bytes_limit", "Limit of memory for records.", budget_.most());
  out.gauge("once_store_records", "Records held.", seen.records);
  out.gauge("once_store_bytes", "Memory used by records.", seen.bytes);
  out.counter("once_store_evictions_total", "Records evicted before they expired because the store was full.",
              seen.evictions);
  out.counter("once_store_bodies_dropped_total", "Responses too large for the store.", seen.bodies_dropped);
  out.counter("once_store_expired_total", "Expired records removed.", seen.expired);
  out.limits = {{.setting = "memory.max_bytes", .used = seen.bytes, .limit = budget_.most()}};
  return out;
}

}  // namespace once::memory
