// Guards for tests: a memory store that several of them share, a manual clock, and faults.
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include <once/fake.hpp>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "guard/engine.hpp"
#include "store/memory/memory_store.hpp"

namespace once::fake {

namespace {

constexpr std::size_t steps = 5;

class StandingClock final : public base::Clock {
 public:
  base::Time now() const override { return base::Time(base::Duration(now_.load())); }
  void advance(base::Duration by) { now_.fetch_add(by.count()); }

 private:
  std::atomic<base::Duration::rep> now_{1'767'225'600'000};  // 2026-01-01
};

Step step_of(store::Verb verb) {
  switch (verb) {
    case store::Verb::claim: return Step::claim;
    case store::Verb::renew: return Step::renew;
    case store::Verb::finish:
    case store::Verb::resolve: return Step::finish;
    case store::Verb::release:
    case store::Verb::forget: return Step::release;
    case store::Verb::lookup: return Step::look;
    case store::Verb::append:
    case store::Verb::read: break;  // a guard does not stream
  }
  ONCE_ASSERT(false);
}

}  // namespace

struct World::State {
  struct Failing {
    Fault fault = Fault::refused;
    unsigned times = 0;
  };

  // The fault of the next step of this kind, if any.
  std::optional<Fault> next(Step step) {
    const auto watching = [&] {
      const std::scoped_lock lock(mutex);
      return watch;
    }();
    if (watching) watching(step);
    const std::scoped_lock lock(mutex);
    if (down) return Fault::refused;
    Failing& of_step = failing[static_cast<std::size_t>(step)];
    if (of_step.times == 0) return std::nullopt;
    --of_step.times;
    return of_step.fault;
  }

  StandingClock clock;
  memory::MemoryStore store{clock, {.shared = store::Shared::yes}};
  std::mutex mutex;
  std::array<Failing, steps> failing;
  bool down = false;
  std::function<void(Step)> watch;
};

namespace {

// One guard's access to the common store.
template <class State>
class FaultyStore final : public store::Store {
 public:
  explicit FaultyStore(std::shared_ptr<State> state) : state_(std::move(state)) {}

  void execute(std::span<store::Op* const> batch) override {
    for (store::Op* op : batch) {
      const std::optional<Fault> fault = state_->next(step_of(op->verb));
      if (!fault || *fault == Fault::answer_lost) state_->store.execute({&op, 1});
      if (fault) answer_failed(*op, fault_of(*fault), "as the test says");
    }
  }
  store::Traits traits() const override { return state_->store.traits(); }

 private:
  static store::StoreFault fault_of(Fault fault) {
    switch (fault) {
      case Fault::refused: return store::StoreFault::refused;
      case Fault::answer_lost: return store::StoreFault::unavailable;
      case Fault::full: return store::StoreFault::full;
    }
    ONCE_ASSERT(false);
  }

  const std::shared_ptr<State> state_;
};

}  // namespace

World::World() : state_(std::make_shared<State>()) {}

Guard World::open(guard::Options options) {
  if (options.secret.empty()) options.secret = "the secret of a test, known to all";
  return guard::Engine::open_on(options, state_->clock, std::make_unique<FaultyStore<State>>(state_), state_);
}

Time World::now() const {
  return state_->clock.now();
}

void World::advance(guard::Duration by) {
  state_->clock.advance(by);
}

void World::fail(Step step, Fault fault, unsigned times) {
  const std::scoped_lock lock(state_->mutex);
  state_->failing[static_cast<std::size_t>(step)] = {.fault = fault, .times = times};
}

void World::go_down() {
  const std::scoped_lock lock(state_->mutex);
  state_->down = true;
}

void World::come_back() {
  const std::scoped_lock lock(state_->mutex);
  state_->down = false;
}

void World::on_step(std::function<void(Step)> watch) {
  const std::scoped_lock lock(state_->mutex);
  state_->watch = std::move(watch);
}

}  // namespace once::fake
