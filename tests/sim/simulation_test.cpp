// That a seed is a whole history, and that many of them keep every promise. `once simulate` runs far more.
#include "sim/simulation.hpp"

#include <array>
#include <map>

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
    total.chunks += report.chunks;
    total.by_hand += report.by_hand;
  }
  // It is not that nothing happened.
  EXPECT_GT(total.executions, 500U);
  EXPECT_GT(total.replays, 500U);
  EXPECT_GT(total.crashes, 100U);
  EXPECT_GT(total.chunks, 500U);
  EXPECT_GT(total.by_hand, 50U);
}

// Keys expire on the journal, and then its clock is set back.
TEST(Simulation, seeds_that_failed_keep_every_promise) {
  constexpr std::array<std::uint64_t, 8> seeds = {
      54117,            // the journal kept in memory what it had dropped from its disk
      123'456'816'224,  // the journal remembered a key that was not to be remembered
      // In these the model was wrong. It took the key for a tombstone that it no longer was.
      5461, 24016, 24353, 72655,
      5'013'349,       // it missed chunks that had expired
      77'000'010'440,  // it forgot at a restart that a finish that had failed may have been written
  };
  for (const std::uint64_t seed : seeds) {
    const Report report = simulate(seed, KeepTrace::no, StoreKind::journal);
    for (const std::string& violation : report.violations) ADD_FAILURE() << "seed " << seed << ": " << violation;
  }
}

// A claim is handed to a request of the same process that has not been sent yet, and its outcome is recorded under it.
TEST(Simulation, claims_may_be_handed_over_before_the_first_byte) {
  const Report report = simulate(17'999);
  for (const std::string& violation : report.violations) ADD_FAILURE() << violation;
}

TEST(Simulation, every_store_keeps_every_promise) {
  for (const auto& [name, store] : store_names) {
    Report total;
    for (std::uint64_t seed = 2000; seed < 2050; ++seed) {
      const Report report = simulate(seed, KeepTrace::no, store);
      for (const std::string& violation : report.violations) {
        ADD_FAILURE() << name << ", seed " << seed << ": " << violation;
      }
      total.executions += report.executions;
      total.replays += report.replays;
      total.by_hand += report.by_hand;
    }
    EXPECT_GT(total.executions, 100U) << name;
    EXPECT_GT(total.replays, 100U) << name;
    EXPECT_GT(total.by_hand, 10U) << name;
  }
}

TEST(Simulation, a_seed_on_the_store_that_it_draws_is_the_same_seed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(simulate(seed).trace_hash, simulate(seed, KeepTrace::no, draw_setup(seed).store).trace_hash);
  }
}

TEST(Simulation, every_kind_of_setup_is_drawn) {
  std::map<StoreKind, unsigned> stores;
  bool several = false;
  bool power = false;
  bool changing = false;
  bool cluster = false;
  bool failover = false;
  bool restart = false;
  bool operators = false;
  bool streams = false;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const auto setup = draw_setup(seed);
    ++stores[setup.store];
    several = several || setup.gateways > 1;
    power = power || setup.power_losses > 0;
    changing = changing || setup.policies_change;
    cluster = cluster || setup.shards > 1;
    failover = failover || setup.failovers > 0;
    restart = restart || setup.store_restarts > 0;
    operators = operators || setup.operators > 0;
    streams = streams || setup.streams > 0;
  }
  for (const auto& [name, store] : store_names) EXPECT_GE(stores[store], 8U) << name;
  EXPECT_TRUE(several && power && changing && cluster && failover && restart && operators && streams);
}

}  // namespace
}  // namespace once::sim
