// What encryption at rest costs: an outcome that is sealed, and one that is opened, per thread.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.hpp"
#include "store/sealed_store.hpp"

namespace once::bench {
namespace {

// Keeps one outcome, so that nothing but the sealing is measured.
class OneOutcome final : public Store {
 public:
  void execute(std::span<Op* const> batch) override {
    for (Op* const op : batch) {
      op->status = OpStatus::done;
      if (writes_outcome(op->verb)) {
        kept_.nonce = op->nonce;
        kept_.outcome = op->outcome;
      }
      op->record = kept_;
    }
  }
  Traits traits() const override { return {}; }

 private:
  Record kept_;
};

struct Sealing {
  SystemClock clock;
  Log log{clock, -1, LogLevel::off, LogFormat::json};
  SystemRandom random;
  OneOutcome inner;
  const std::vector<std::string> secrets = {"a secret of enough bytes"};
  SealedStore store{inner, secrets, random, log};

  void execute(Op& op) {
    Op* const batch = &op;
    store.execute({&batch, 1});
  }
};

Op finish_of(std::size_t bytes) {
  Op op{.verb = Verb::finish};
  op.outcome = std::make_shared<const std::string>(bytes, 'x');
  return op;
}

void seal(benchmark::State& state) {
  Sealing sealing;
  Op op = finish_of(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    ++op.id.bytes[0];
    sealing.execute(op);
  }
}

void open(benchmark::State& state) {
  Sealing sealing;
  Op op = finish_of(static_cast<std::size_t>(state.range(0)));
  sealing.execute(op);
  op.verb = Verb::lookup;
  for (auto _ : state) {
    sealing.execute(op);
    if (op.record->outcome == nullptr) std::abort();
  }
}

BENCHMARK(seal)->Arg(200)->Arg(4096)->Arg(65536);
BENCHMARK(open)->Arg(200)->Arg(4096)->Arg(65536);

}  // namespace
}  // namespace once::bench

BENCHMARK_MAIN();
