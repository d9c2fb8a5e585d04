#include "admin/samples.hpp"

#include <gtest/gtest.h>

namespace once::admin::samples_test {

using namespace std::chrono_literals;

HistogramSnapshot histogram(std::vector<std::uint64_t> counts) {
  HistogramSnapshot made{.bounds = {10, 20, 40}, .counts = std::move(counts)};
  for (const std::uint64_t count : made.counts) made.count += count;
  return made;
}

TEST(Quantile, is_taken_within_the_bucket_that_holds_it) {
  EXPECT_EQ(quantile(histogram({0, 0, 0, 0}), 0.5), std::nullopt);
  EXPECT_DOUBLE_EQ(*quantile(histogram({10, 0, 0, 0}), 0.5), 5);
  EXPECT_DOUBLE_EQ(*quantile(histogram({5, 5, 0, 0}), 0.5), 10);
  EXPECT_DOUBLE_EQ(*quantile(histogram({5, 5, 0, 0}), 0.75), 15);
  EXPECT_DOUBLE_EQ(*quantile(histogram({0, 0, 4, 0}), 0.25), 25);
  EXPECT_DOUBLE_EQ(*quantile(histogram({1, 0, 0, 9}), 0.99), 40) << "above the last bound nothing is known";
  EXPECT_DOUBLE_EQ(*quantile(histogram({1, 0, 1, 0}), 0.50), 10) << "an empty bucket holds nothing";
}

Sample sample_at(Instant at, std::uint64_t executed, std::uint64_t replayed) {
  Sample sample;
  sample.at = at;
  sample.results[static_cast<std::size_t>(Ending::executed)] = executed;
  sample.results[static_cast<std::size_t>(Ending::replayed)] = replayed;
  sample.executions = executed;
  sample.latency_ns = histogram({executed, replayed, 0, 0});
  return sample;
}

TEST(Window, is_what_happened_between_two_samples) {
  Sample from = sample_at(10s, 100, 50);
  Sample to = sample_at(15s, 130, 60);
  from.takeovers = 1;
  to.takeovers = 4;
  to.failures = 6;
  for (const Ending without : {Ending::passed, Ending::bypassed, Ending::rejected}) {
    to.results[static_cast<std::size_t>(without)] = 1000;
  }
  const Window window(from, to);
  EXPECT_DOUBLE_EQ(window.seconds, 5);
  EXPECT_EQ(window.of(Ending::executed), 30U);
  EXPECT_EQ(window.keyed, 40U) << "the others were not answered by their key";
  EXPECT_DOUBLE_EQ(*window.hit_rate(), 0.25);
  EXPECT_DOUBLE_EQ(*window.takeover_rate(), 0.1);
  EXPECT_DOUBLE_EQ(*window.failure_rate(), 0.2);
  EXPECT_EQ(window.latency_ns.counts, (std::vector<std::uint64_t>{30, 10, 0, 0}));
  EXPECT_EQ(window.latency_ns.count, 40U);
}

TEST(Window, of_nothing_has_no_rates) {
  const Window window(sample_at(1s, 5, 5), sample_at(1s, 5, 5));
  EXPECT_EQ(window.hit_rate(), std::nullopt);
  EXPECT_EQ(window.takeover_rate(), std::nullopt);
  EXPECT_EQ(quantile(window.latency_ns, 0.5), std::nullopt);
  EXPECT_GT(window.seconds, 0);
}

TEST(Window, begins_with_what_was_not_counted_yet) {
  Sample from;
  from.at = 0s;
  const Window window(from, sample_at(1s, 3, 1));
  EXPECT_EQ(window.latency_ns.count, 4U);
}

TEST(History, keeps_a_quarter_of_an_hour) {
  History history;
  for (std::size_t i = 0; i < History::most + 5; ++i) history.add(sample_at(i * 5s, i, 0));
  EXPECT_EQ(history.samples().size(), History::most);
  const Instant now = history.samples().back().at;
  EXPECT_EQ(now - history.samples().front().at, 15min);
  EXPECT_EQ(history.before(now, 0s).at, now);
  EXPECT_EQ(history.before(now, 7s).at, now - 10s);
  EXPECT_EQ(history.before(now, 1h).at, history.samples().front().at);
}

}  // namespace once::admin::samples_test
