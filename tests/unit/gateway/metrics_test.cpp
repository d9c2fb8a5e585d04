// What a worker counts, and what of it others may read meanwhile.
#include "gateway/metrics.hpp"

#include <map>

#include <gtest/gtest.h>

namespace once::gateway::metrics_test {

using namespace std::chrono_literals;

TEST(RouteTableTest, a_route_keeps_its_counts_however_often_it_is_asked_for) {
  RouteTable table;
  RouteMetrics& payments = table.of("/payments");
  payments.takeovers.add();
  for (int i = 0; i < 100; ++i) table.of("/route/" + std::to_string(i));
  EXPECT_EQ(&table.of("/payments"), &payments);
  std::map<std::string, std::uint64_t> seen;
  table.visit([&](const std::string& route, const RouteMetrics& counts) { seen[route] = counts.takeovers.value(); });
  EXPECT_EQ(seen.size(), 101U);
  EXPECT_EQ(seen["/payments"], 1U);
}

TEST(RouteTableTest, routes_share_no_cache_line) {
  RouteTable table;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&table.of("/a")) % 64, 0U);
  EXPECT_EQ(sizeof(RouteMetrics) % 64, 0U);
}

TEST(AtWorkTest, the_oldest_is_the_first_that_has_not_ended) {
  AtWork all;
  EXPECT_EQ(all.oldest(10s), 0s);
  auto first = std::make_unique<AtWork::Entry>(all, 1s);
  auto second = std::make_unique<AtWork::Entry>(all, 2s);
  auto third = std::make_unique<AtWork::Entry>(all, 4s);
  EXPECT_EQ(all.oldest(10s), 9s);
  second.reset();
  EXPECT_EQ(all.oldest(10s), 9s);
  first.reset();
  EXPECT_EQ(all.oldest(10s), 6s);
  EXPECT_EQ(all.oldest(3s), 0s);  // a clock that was read before it came
  third.reset();
  EXPECT_EQ(all.oldest(10s), 0s);
  const AtWork::Entry again(all, 9s);
  EXPECT_EQ(all.oldest(10s), 1s);
}

}  // namespace once::gateway::metrics_test
