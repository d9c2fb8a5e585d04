#include "base/sometimes.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace once::base {
namespace sometimes_test {

std::uint64_t taken(std::string_view name) {
  const auto counts = Branches::counts();
  const auto found = std::ranges::find(counts, name, &Branches::Count::name);
  EXPECT_NE(found, counts.end()) << name;
  return found == counts.end() ? 0 : found->taken;
}

void is_never_called() {
  sometimes<"test: never taken">();
}

TEST(Sometimes, counts_only_when_it_is_asked_to) {
  sometimes<"test: before counting">();
  EXPECT_EQ(taken("test: before counting"), 0U);
  Branches::count();
  for (int i = 0; i < 3; ++i) sometimes<"test: taken">(i != 1);
  EXPECT_EQ(taken("test: taken"), 2U);
}

TEST(Sometimes, a_branch_that_is_never_taken_is_listed) {
  void (*const never)() = is_never_called;
  EXPECT_NE(never, nullptr);
  EXPECT_EQ(taken("test: never taken"), 0U);
}

TEST(Sometimes, branches_are_in_the_order_of_their_names) {
  const auto counts = Branches::counts();
  EXPECT_TRUE(std::ranges::is_sorted(counts, {}, &Branches::Count::name));
}

}  // namespace sometimes_test
}  // namespace once::base
