// The journal through crashes of every kind, drawn from seeds: what was told is there afterwards, byte for byte, and
// nothing else is.
#include <gtest/gtest.h>

#include "tests/unit/support/journal_machine.hpp"

namespace once {
namespace {

constexpr JournalSettings tiny{.segment_bytes = 4096, .cache_bytes = 4096};

void restart(JournalMachine& machine, JournalModel& model) {
  ASSERT_TRUE(machine.start()) << machine.refusal;
  model.lapse();
  model.check(machine);
}

enum class End : std::uint8_t { power, kill, close };

// A few lives of one journal, each of which ends at some disk call.
void live(std::uint64_t seed, const JournalSettings& settings, auto&& draw_end) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Draw draw(seed);
  JournalMachine machine(seed, settings);
  JournalModel model;
  JournalWorkload workload(seed + 1000);
  for (int lives = 0; lives < 6; ++lives) {
    restart(machine, model);
    if (testing::Test::HasFailure()) return;
    machine.platter.stop_at(1 + draw.below(120));
    for (int i = 0; i < 60 && !machine.platter.stopped(); ++i) workload.step(machine, model);
    switch (draw_end(draw)) {
      case End::power: machine.lose_power(); break;
      case End::kill: machine.kill(); break;
      case End::close:
        machine.close();
        machine.kill();
        break;
    }
    // The start may end at any call too.
    while (draw.one_in(2)) {
      machine.platter.stop_at(1 + draw.below(40));
      if (machine.start()) model.lapse();
      draw.one_in(2) ? machine.lose_power() : machine.kill();
    }
  }
  restart(machine, model);
}

TEST(JournalCrash, what_was_told_survives_any_crash) {
  for (std::uint64_t seed = 1; seed <= 100 && !testing::Test::HasFailure(); ++seed) {
    live(seed, tiny, [](Draw& draw) { return static_cast<End>(draw.below(3)); });
  }
}

}  // namespace
}  // namespace once
