// Every planted bug (base/bug.hpp) is found within a bounded number of seeds: what the simulator does not see, it does
// not prove.
#include <string>

#include <gtest/gtest.h>

#include "base/bug.hpp"
#include "sim/simulation.hpp"

namespace once::sim {
namespace {

constexpr std::uint64_t most_seeds = 1000;

class PlantedBug : public testing::TestWithParam<std::pair<std::string_view, Bug>> {};

TEST_P(PlantedBug, is_found) {
  planted_bug = GetParam().second;
  for (std::uint64_t seed = 1; seed <= most_seeds; ++seed) {
    const Report report = simulate(seed);
    if (report.violations.empty()) continue;
    RecordProperty("seed", static_cast<int>(seed));
    RecordProperty("violation", report.violations.front());
    return;
  }
  ADD_FAILURE() << GetParam().first << " was not found within " << most_seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Simulation, PlantedBug, testing::ValuesIn(bug_names),
                         [](const auto& info) { return std::string(info.param.first); });

// The other direction: the same build without a bug violates nothing, so it is the bug that is found.
TEST(PlantedBugs, without_one_nothing_is_found) {
  planted_bug = Bug::none;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) EXPECT_TRUE(simulate(seed).violations.empty()) << "seed " << seed;
}

}  // namespace
}  // namespace once::sim
