// Simulated Redis: a server, or a cluster, each with a replica that lags behind. When a server fails, its replica takes
// over without the writes that it has not received. With waiting, a write is done, and a recorded outcome is returned,
// only once the replica has it; a write that does not reach the replica in time still exists on the server.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "sim/history.hpp"
#include "sim/process.hpp"
#include "sim/rows.hpp"
#include "sim/setup.hpp"
#include "sim/world.hpp"
#include "store/store.hpp"

namespace once::sim {

class RedisServers final : public Store, private RowsSearch {
 public:
  RedisServers(World& world, History& history, SkewedClock& clock, const Setup& setup);

  void execute(std::span<Op* const> batch) override;
  Traits traits() const override { return {.durable = Durable::yes, .shared = Shared::yes}; }

  Search* search() override { return this; }

  // Any server fails over, unless its replica is still missing.
  void fail_over();
  // Empties all servers at once.
  void lose_data();
  void heal();

 private:
  // A write on its way to the replica.
  struct Change {
    OperationId id;
    std::optional<Record> record;
    std::vector<OutcomeBytes> chunks;
    std::uint64_t number = 0;
    Time due;  // by the simulation's time
  };
  struct Shard {
    Rows primary;
    Rows replica;
    std::deque<Change> behind;
    std::set<OperationId> marked{};  // outcomes that are known to be on the replica
    bool down = false;
    bool has_replica = true;
  };

  Shard& shard_of(const OperationId& id) { return shards_[id.bytes[4] % shards_.size()]; }
  Result<KeyPage> all() const override;
  void execute(Op& op);
  void replicate_later(Shard& shard, const OperationId& id);
  void replicate(Shard& shard, std::uint64_t up_to);
  bool replica_has(Shard& shard, const OperationId& id);
  void take_replica(Shard& shard);

  World& world_;
  History& history_;
  SkewedClock& clock_;
  const Setup& setup_;
  std::vector<Shard> shards_;
  std::uint64_t changes_ = 0;
  bool healed_ = false;
};

}  // namespace once::sim
