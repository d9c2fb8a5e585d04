#include "base/histogram.hpp"

#include <gtest/gtest.h>

namespace once::base::histogram_test {

TEST(Histogram, a_value_counts_in_the_first_bucket_that_holds_it) {
  Histogram<3> histogram(growing_bounds<3>(10, 10));
  for (const std::uint64_t value : {0U, 10U, 11U, 100U, 1000U, 1001U}) histogram.observe(value);
  const HistogramSnapshot taken = histogram.snapshot();
  EXPECT_EQ(taken.bounds, (std::vector<std::uint64_t>{10, 100, 1000}));
  EXPECT_EQ(taken.counts, (std::vector<std::uint64_t>{2, 2, 1, 1}));
  EXPECT_EQ(taken.count, 6U);
  EXPECT_EQ(taken.sum, 2122U);
}

TEST(Histogram, snapshots_add_up) {
  Histogram<2> one(growing_bounds<2>(1, 2));
  Histogram<2> two(growing_bounds<2>(1, 2));
  one.observe(1);
  two.observe(2);
  two.observe(9);
  HistogramSnapshot total;
  total.merge(one.snapshot());
  total.merge(two.snapshot());
  EXPECT_EQ(total.counts, (std::vector<std::uint64_t>{1, 1, 1}));
  EXPECT_EQ(total.count, 3U);
  EXPECT_EQ(total.sum, 12U);
}

}  // namespace once::base::histogram_test
