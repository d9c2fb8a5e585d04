#include "sim/redis_servers.hpp"

#include <algorithm>

namespace once::sim {

namespace {

using namespace std::chrono_literals;

// Whether clients rely on the result from now on: a claim, a write, or an outcome that is about to be returned.
bool must_last(const Op& op) {
  if (op.status != OpStatus::done) return false;
  if (op.verb == Verb::read && !op.chunks.empty()) return true;
  if (op.verb == Verb::lookup || op.verb == Verb::read) return op.record && op.record->state == State::succeeded;
  const bool claims = op.verb == Verb::claim;
  return !claims || op.verdict == Verdict::execute || op.verdict == Verdict::replay || op.verdict == Verdict::not_kept;
}

}  // namespace

RedisServers::RedisServers(World& world, History& history, SkewedClock& clock, const Setup& setup)
    : world_(world), history_(history), clock_(clock), setup_(setup), shards_(setup.shards) {}

void RedisServers::execute(std::span<Op* const> batch) {
  for (Op* op : batch) execute(*op);
}

void RedisServers::execute(Op& op) {
  Shard& shard = shard_of(op.id);
  if (shard.down) {
    return answer_failed(op, world_.draw.one_in(2) ? StoreFault::refused : StoreFault::unavailable, "failing over");
  }
  const bool changed = shard.primary.execute(op, clock_.now()) == Rows::Changed::yes;
  if (changed) {
    replicate_later(shard, op.id);
    shard.marked.erase(op.id);
  }
  history_.store_acted(op);
  if (setup_.store != StoreKind::redis_wait || !must_last(op)) return;
  const bool known = !changed && shard.marked.contains(op.id);
  if (known || replica_has(shard, op.id)) {
    history_.acknowledged(op.id);
    if (op.record && op.record->state == State::succeeded) shard.marked.insert(op.id);
  } else {
    answer_failed(op, StoreFault::unavailable, "the replica does not have it in time");
  }
}

Result<KeyPage> RedisServers::all() const {
  KeyPage page;
  for (const Shard& shard : shards_) {
    if (shard.down) return server_down();
    shard.primary.list(page, clock_.now());
  }
  return page;
}

void RedisServers::replicate_later(Shard& shard, const OperationId& id) {
  if (!shard.has_replica) return;  // the replica will get a full copy
  Duration lag = world_.draw.between(0ms, healed_ ? 5ms : setup_.replica_lag);
  const Time before = shard.behind.empty() ? Time::min() : shard.behind.back().due;
  const Change change{.id = id,
                      .record = shard.primary.at(id),
                      .chunks = shard.primary.chunks_at(id),
                      .number = ++changes_,
                      .due = std::max(before, world_.now() + lag)};
  shard.behind.push_back(change);
  world_.after(change.due - world_.now(), [this, &shard, number = change.number] { replicate(shard, number); });
}

void RedisServers::replicate(Shard& shard, std::uint64_t up_to) {
  while (!shard.behind.empty() && shard.behind.front().number <= up_to) {
    const Change& change = shard.behind.front();
    shard.replica.put(change.id, change.record, change.chunks);
    shard.behind.pop_front();
  }
}

// Whether the replica gets the write within the time limit. It gets it at once here, which makes no difference until
// the answer arrives.
bool RedisServers::replica_has(Shard& shard, const OperationId& id) {
  if (!shard.has_replica) return false;
  const auto newest = std::ranges::find(shard.behind.rbegin(), shard.behind.rend(), id, &Change::id);
  if (newest == shard.behind.rend()) return true;
  if (newest->due > world_.now() + setup_.replica_wait) return false;
  replicate(shard, newest->number);
  return true;
}

void RedisServers::fail_over() {
  Shard& shard = shards_[world_.draw.below(shards_.size())];
  if (healed_ || shard.down || !shard.has_replica) return;
  world_.note("redis: a replica takes over");
  shard.primary = shard.replica;
  shard.behind.clear();
  shard.marked.clear();  // the marks may not have reached the replica
  shard.has_replica = false;
  shard.down = true;
  // The replica has another clock.
  clock_.jump(world_.draw.below(Duration(4s)) - 2s);
  for (const OperationId& id : history_.ids()) {
    if (&shard_of(id) == &shard) history_.failed_over(id, shard.primary.at(id), shard.primary.chunks_at(id));
  }
  world_.after(world_.draw.between(50ms, 8s), [this, &shard] {
    shard.down = false;
    world_.after(world_.draw.between(0ms, 4s), [this, &shard] { take_replica(shard); });
  });
}

void RedisServers::lose_data() {
  if (healed_) return;
  world_.note("redis: is emptied");
  for (Shard& shard : shards_) {
    shard.primary.clear();
    shard.replica.clear();
    shard.behind.clear();
    shard.marked.clear();
  }
  history_.store_emptied();
}

void RedisServers::take_replica(Shard& shard) {
  shard.behind.clear();
  shard.replica = shard.primary;
  shard.has_replica = true;
}

void RedisServers::heal() {
  healed_ = true;
  for (Shard& shard : shards_) {
    shard.down = false;
    take_replica(shard);
  }
}

}  // namespace once::sim
