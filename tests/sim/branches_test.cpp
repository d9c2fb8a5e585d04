// The report on branches that seeds have taken, and how backends may read a path.
#include "sim/branches.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/loose_paths.hpp"
#include "sim/simulation.hpp"

namespace once::sim {
namespace branches_test {

using testing::ElementsAre;

constexpr std::array<Unreachable, 3> listed{
    Unreachable{.branch = "b: cannot be taken", .reason = "not modelled"},
    Unreachable{.branch = "c: taken all the same", .reason = "wrong"},
    Unreachable{.branch = "e: rarely taken", .why = WhyNot::rare, .reason = "luck"},
};

TEST(SimulatorBranches, a_branch_is_taken_or_listed_or_missing) {
  const BranchReport report = judge_branches({{.name = "a: taken", .taken = 2},
                                              {.name = "b: cannot be taken"},
                                              {.name = "c: taken all the same", .taken = 1},
                                              {.name = "d: not taken"},
                                              {.name = "e: rarely taken", .taken = 1}},
                                             listed);
  EXPECT_FALSE(report.complete());
  EXPECT_THAT(report.missing, ElementsAre("d: not taken"));
  EXPECT_THAT(report.wrong, ElementsAre("c: taken all the same"));
  EXPECT_EQ(summary_of(report), "branches: 3 of 5 reached; not: d: not taken\n");
  EXPECT_EQ(details_of(report, listed),
            "        2 a: taken\n"
            "        0 b: cannot be taken (listed: not modelled)\n"
            "        1 c: taken all the same (listed: wrong)\n"
            "        0 d: not taken NOT REACHED\n"
            "        1 e: rarely taken (listed: luck)\n"
            "c: taken all the same: wrongly listed\n");
}

TEST(SimulatorBranches, a_listed_branch_must_exist) {
  const BranchReport report = judge_branches({{.name = "c: taken all the same"}}, listed);
  EXPECT_THAT(report.wrong, ElementsAre("b: cannot be taken", "e: rarely taken"));
}

TEST(SimulatorBranches, a_run_counts) {
  const auto sum = [] {
    std::uint64_t taken = 0;
    for (const Branches::Count& each : Branches::counts()) taken += each.taken;
    return taken;
  };
  const std::uint64_t before = sum();
  EXPECT_TRUE(simulate(1).violations.empty());
  const std::uint64_t once = sum() - before;
  EXPECT_GT(once, 0U);
  EXPECT_TRUE(simulate(1).violations.empty());
  EXPECT_EQ(sum() - before, 2 * once) << "a seed determines what is counted";
}

TEST(SimulatorPaths, some_backend_reads_them_as_required) {
  for (const auto* const target :
       {"/pay/1", "/p%61y/1", "/pass/../pay/1", "/pass/..%2fpay/1", "/pass\\..\\pay/1", "/pass;p/../pay/1",
        "/pass;p%2f..%2fpay/1", "/pay;p/1", "//host/pay/1", "/\\host\\pay\\1", "//pay/1", "/pass/x/..;p/../pay/1?y"}) {
    EXPECT_TRUE(may_be_read_as_required(target)) << target;
  }
  for (const auto* const target : {"/pass/1", "/payments/1", "/pass/pay/1", "/pay", "/x?/../pay/1"}) {
    EXPECT_FALSE(may_be_read_as_required(target)) << target;
  }
}

}  // namespace branches_test
}  // namespace once::sim
