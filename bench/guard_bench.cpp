// What the library costs beside the work, on the memory store. The targets: 1 µs for a value that is there, 3 µs for
// a fresh run.
#include <cstdlib>
#include <string>

#include <benchmark/benchmark.h>
#include <once/guard.hpp>

namespace once::bench {
namespace {

Guard open() {
  auto guard = Guard::open({.store = "memory:", .environment = guard::Environment::development});
  if (!guard) std::abort();
  return std::move(*guard);
}

std::string work() {
  return std::string(200, 'x');
}

void cached(benchmark::State& state) {
  Guard guard = open();
  const guard::Request request{.tenant = "launchbase", .scope = "actionRequests.aiProposeCopy", .key = "intake-123"};
  if (!guard.run(request, work).succeeded()) std::abort();
  for (auto _ : state) {
    if (!guard.run(request, work).cached()) std::abort();
  }
}

// Everything made anew for each call, as a program writes it.
void cached_by_inputs(benchmark::State& state) {
  Guard guard = open();
  const auto run = [&] {
    return guard.run({.tenant = "launchbase",
                      .scope = "actionRequests.aiProposeCopy",
                      .inputs = {{"intakeId", 123}, {"actionRequestId", 456}, {"targetSection", "hero"}}},
                     work);
  };
  if (!run().succeeded()) std::abort();
  for (auto _ : state) {
    if (!run().cached()) std::abort();
  }
}

// The store is full for most of the run, so every claim also evicts one.
void fresh(benchmark::State& state) {
  Guard guard = open();
  guard::Request request{.tenant = "launchbase", .scope = "actionRequests.aiProposeCopy"};
  std::uint64_t number = 0;
  for (auto _ : state) {
    request.key = std::to_string(++number);
    if (guard.run(request, work).cached()) std::abort();
  }
}

void hash(benchmark::State& state) {
  const std::string text = "Please write a   headline that\nsells tennis lessons to beginners.";
  for (auto _ : state) benchmark::DoNotOptimize(hash_text(text));
}

BENCHMARK(cached);
BENCHMARK(cached_by_inputs);
BENCHMARK(fresh);
BENCHMARK(hash);

}  // namespace
}  // namespace once::bench

BENCHMARK_MAIN();
