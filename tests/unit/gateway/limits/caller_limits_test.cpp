// What one caller may take. Time is given.
#include "gateway/limits/caller_limits.hpp"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace once::gateway::caller_limits_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TenantTag tag(unsigned number) {
  static constexpr char digits[] = "0123456789abcdef";
  TenantTag tag;
  tag.fill('0');
  tag[0] = digits[number % 16];
  for (std::size_t i = tag.size(); number > 0; number /= 16) tag[--i] = digits[number % 16];
  return tag;
}

constexpr nanoseconds start = 1000s;

TEST(CallerLimitsTest, requests_at_work_are_counted_for_each_caller) {
  CallerTable table;
  const CallerLimits limits{.in_flight = 2};
  CallerUse first(table, tag(1), limits, start);
  CallerUse second(table, tag(1), limits, start);
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(CallerUse(table, tag(1), limits, start));
  EXPECT_TRUE(CallerUse(table, tag(2), limits, start));
  first = CallerUse();
  EXPECT_TRUE(CallerUse(table, tag(1), limits, start));
}

TEST(CallerLimitsTest, new_keys_come_at_the_rate_after_the_burst) {
  CallerTable table;
  const CallerLimits limits{.new_keys = 10};
  CallerUse use(table, tag(1), limits, start);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(use.take_key(limits, start)) << i;
  const auto refusal = use.take_key(limits, start);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, CallerLimit::new_keys);
  EXPECT_EQ(refusal->retry_after_seconds, 1);
  EXPECT_TRUE(use.take_key(limits, start + 99ms));
  EXPECT_FALSE(use.take_key(limits, start + 101ms));
  EXPECT_TRUE(use.take_key(limits, start + 101ms));
  // However long nothing came, no more than the burst.
  int taken = 0;
  while (!use.take_key(limits, start + 1h)) ++taken;
  EXPECT_EQ(taken, 20);
  CallerUse other(table, tag(2), limits, start);
  EXPECT_FALSE(other.take_key(limits, start));
}

TEST(CallerLimitsTest, a_burst_can_be_chosen) {
  CallerTable table;
  const CallerLimits limits{.new_keys = 1, .new_keys_burst = 5};
  CallerUse use(table, tag(1), limits, start);
  int taken = 0;
  while (!use.take_key(limits, start)) ++taken;
  EXPECT_EQ(taken, 5);
}

TEST(CallerLimitsTest, a_key_that_was_not_new_is_given_back_once) {
  CallerTable table;
  const CallerLimits limits{.new_keys = 1, .new_keys_burst = 1};
  CallerUse use(table, tag(1), limits, start);
  EXPECT_FALSE(use.take_key(limits, start));
  use.give_back_key(limits);
  use.give_back_key(limits);
  EXPECT_FALSE(use.take_key(limits, start));
  EXPECT_TRUE(use.take_key(limits, start));
  use.give_back_key(limits);  // it was refused: nothing was taken
  EXPECT_TRUE(use.take_key(limits, start));
}

TEST(CallerLimitsTest, stored_bytes_count_until_they_expire) {
  CallerTable table;
  const CallerLimits limits{.stored_bytes = 1000};
  CallerUse use(table, tag(1), limits, start);
  EXPECT_FALSE(use.take_key(limits, start));
  use.stored(limits, {}, {.bytes = 999, .until = start + 80s}, start);
  EXPECT_FALSE(use.take_key(limits, start));
  use.stored(limits, {}, {.bytes = 1, .until = start + 40s + 80s}, start + 40s);
  const auto refusal = use.take_key(limits, start + 40s);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->limit, CallerLimit::stored_bytes);
  EXPECT_EQ(refusal->retry_after_seconds, 50);  // an eighth of its life longer than it lives
  EXPECT_TRUE(use.take_key(limits, start + 79s));
  EXPECT_FALSE(use.take_key(limits, start + 90s));
}

TEST(CallerLimitsTest, expiring_bytes_are_never_counted_too_short) {
  ExpiringBytes bytes;
  struct Added {
    nanoseconds until;
    std::size_t count;
  };
  std::vector<Added> all;
  nanoseconds now = start;
  for (unsigned i = 0; i < 2000; ++i) {
    // Lives of very different length, so that there are not enough buckets.
    const Duration life = std::chrono::seconds(1U << (i * 7 % 12));
    bytes.add(i, life, now);
    all.push_back({now + life, i});
    now += std::chrono::milliseconds(i * 37 % 900);
    std::size_t live = 0;
    for (const Added& added : all) live += added.until > now ? added.count : 0;
    ASSERT_GE(bytes.live(now), live) << i;
  }
  EXPECT_EQ(bytes.live(now + 10'000s), 0U);
}

TEST(CallerLimitsTest, one_life_is_counted_at_most_an_eighth_too_long) {
  ExpiringBytes bytes;
  for (int second = 0; second < 1000; ++second) bytes.add(1, 80s, start + std::chrono::seconds(second));
  const std::size_t live = bytes.live(start + 1000s);
  EXPECT_GE(live, 80U);
  EXPECT_LE(live, 91U);
}

TEST(CallerLimitsTest, idle_callers_are_forgotten_and_memory_is_bounded) {
  CallerTable table;
  const CallerLimits limits{.new_keys = 1, .stored_bytes = 100, .tracked = 1600};
  CallerUse busy(table, tag(7), limits, start);
  // All of them have something to be remembered for.
  for (unsigned i = 100; i < 20'000; ++i) {
    CallerUse use(table, tag(i), limits, start);
    EXPECT_FALSE(use.take_key(limits, start));
    use.stored(limits, {}, {.bytes = 100, .until = start + 1h}, start);
  }
  EXPECT_LE(table.size(), 1600U);
  EXPECT_GT(table.size(), 800U);
  // The last is still known, the first starts anew; who is at work was never dropped.
  EXPECT_TRUE(CallerUse(table, tag(19'999), limits, start).take_key(limits, start));
  EXPECT_FALSE(CallerUse(table, tag(100), limits, start).take_key(limits, start));
  EXPECT_FALSE(busy.take_key(limits, start));
  // Later there is nothing to remember: each newcomer takes the place of older ones.
  const std::size_t before = table.size();
  for (unsigned i = 30'000; i < 30'400; ++i) CallerUse(table, tag(i), limits, start + 24h);
  EXPECT_LT(table.size(), before);
}

TEST(CallerLimitsTest, callers_at_work_do_not_keep_others_from_being_forgotten) {
  CallerTable table;
  const CallerLimits limits{.in_flight = 2, .tracked = 320};
  std::vector<CallerUse> at_work;
  for (unsigned i = 0; i < 200; ++i) at_work.emplace_back(table, tag(i), limits, start);
  for (unsigned i = 1000; i < 9000; ++i) CallerUse(table, tag(i), limits, start);
  EXPECT_LE(table.size(), 200U + 320U);
}

TEST(CallerLimitsTest, from_many_threads) {
  CallerTable table;
  const CallerLimits limits{.in_flight = 3, .new_keys = 1'000'000, .stored_bytes = 1'000'000};
  std::vector<std::jthread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&table, &limits] {
      for (unsigned i = 0; i < 2000; ++i) {
        CallerUse use(table, tag(i % 5), limits, start);
        if (!use) continue;
        EXPECT_FALSE(use.take_key(limits, start));
        use.stored(limits, {}, {.bytes = 1, .until = start + 1h}, start);
        use.give_back_key(limits);
      }
    });
  }
  threads.clear();
  for (unsigned i = 0; i < 5; ++i) EXPECT_TRUE(CallerUse(table, tag(i), limits, start));
}

}  // namespace once::gateway::caller_limits_test
