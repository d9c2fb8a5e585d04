// What the memory store costs a request: claim + finish of a new key, and a replay. The budget is 1 µs for the first
// two.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.hpp"
#include "store/memory/memory_store.hpp"

namespace once::bench {
namespace {

struct Key {
  OperationId id;
  Nonce nonce;
};

std::vector<Key> random_keys(std::size_t count) {
  SystemRandom random;
  std::vector<Key> keys(count);
  for (Key& key : keys) {
    random.fill(key.id.bytes);
    random.fill(key.nonce.bytes);
  }
  return keys;
}

void execute(MemoryStore& store, Op& op) {
  Op* const batch = &op;
  store.execute({&batch, 1});
}

const SystemClock system_clock;
// Made once and shared, as one shared outcome costs the store what its own would; making it is the gateway's cost.
const OutcomeBytes outcome = std::make_shared<const std::string>(200, 'x');

void claim_and_finish(MemoryStore& store, const Key& key) {
  Op op{.verb = Verb::claim, .id = key.id, .nonce = key.nonce};
  execute(store, op);
  if (op.verdict != Verdict::execute) std::abort();
  op.verb = Verb::finish;
  op.outcome = outcome;
  execute(store, op);
  benchmark::DoNotOptimize(op.status);
}

// One store for all threads. Keys are new for ever: the id of a random key is changed a little every time round.
std::unique_ptr<MemoryStore> shared_store;

void first_request(benchmark::State& state) {
  if (state.thread_index() == 0) {
    shared_store = std::make_unique<MemoryStore>(
        system_clock, MemoryLimits{.max_bytes = static_cast<std::size_t>(state.range(0)) << 20U});
  }
  std::vector<Key> keys = random_keys(1U << 16U);
  std::size_t i = 0;
  for (auto _ : state) {
    Key& key = keys[i++ & (keys.size() - 1)];
    for (std::size_t byte = 0; byte < 8; ++byte)
      key.id.bytes[byte] = static_cast<std::uint8_t>(key.id.bytes[byte] * 5 + 1 + i);
    ++key.id.bytes[20];
    claim_and_finish(*shared_store, key);
  }
  if (state.thread_index() == 0) {
    state.counters["records"] = static_cast<double>(shared_store->stats().records);
    shared_store.reset();
  }
}

void replay(benchmark::State& state) {
  MemoryStore store(system_clock, {.max_bytes = std::size_t{4} << 30U});
  const std::vector<Key> keys = random_keys(static_cast<std::size_t>(state.range(0)));
  for (const Key& key : keys) claim_and_finish(store, key);
  std::size_t i = 0;
  for (auto _ : state) {
    Op op{.verb = Verb::claim, .id = keys[i].id, .nonce = {{1}}};
    i = i + 1 == keys.size() ? 0 : i + 1;
    execute(store, op);
    if (op.verdict != Verdict::replay) std::abort();
  }
}

// 16 MiB and 256 MiB: the store is full for most of the run, so every claim also evicts one.
BENCHMARK(first_request)->Arg(16)->Arg(256)->ArgName("MiB")->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(replay)->Arg(1000)->Arg(1'000'000)->ArgName("keys");

}  // namespace
}  // namespace once::bench

BENCHMARK_MAIN();
