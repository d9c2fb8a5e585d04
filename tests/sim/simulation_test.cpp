// That a seed is a whole history, and that many of them keep every promise. `once simulate` runs far more.
#include "sim/simulation.hpp"

#include <gtest/gtest.h>

#include "sim/setup.hpp"

namespace once::sim {
namespace {

TEST(Simulation, the_same_seed_is_the_same_history) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Report first = simulate(seed, KeepTrace::yes);
    const Report second = simulate(seed, KeepTrace::no);
    EXPECT_EQ(first.trace_hash, second.trace_hash) << "seed " << seed;
    EXPECT_FALSE(first.trace.empty());
    EXPECT_TRUE(second.trace.empty());
  }
  EXPECT_NE(simulate(1).trace_hash, simulate(2).trace_hash);
}

TEST(Simulation, seeds_keep_every_promise) {
  Report total;
  for (std::uint64_t seed = 1000; seed < 1200; ++seed) {
    const Report report = simulate(seed);
    for (const std::string& violation : report.violations) ADD_FAILURE() << "seed " << seed << ": " << violation;
    total.executions += report.executions;
    total.replays += report.replays;
    total.crashes += report.crashes;
  }
  // It is not that nothing happened.
  EXPECT_GT(total.executions, 500U);
  EXPECT_GT(total.replays, 500U);
  EXPECT_GT(total.crashes, 100U);
}

TEST(Simulation, every_kind_of_setup_is_drawn) {
  bool shared = false;
  bool journal = false;
  bool several = false;
  bool power = false;
  bool changing = false;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const auto setup = draw_setup(seed);
    shared = shared || setup.store == StoreKind::shared;
    journal = journal || setup.store == StoreKind::journal;
    several = several || setup.gateways > 1;
    power = power || setup.power_losses > 0;
    changing = changing || setup.policies_change;
  }
  EXPECT_TRUE(shared && journal && several && power && changing);
}

}  // namespace
}  // namespace once::sim
