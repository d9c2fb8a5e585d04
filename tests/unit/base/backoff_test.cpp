#include "base/backoff.hpp"

#include <gtest/gtest.h>

namespace once::base::backoff_test {

using namespace std::chrono_literals;

TEST(Backoff, doubles_up_to_the_longest) {
  Backoff backoff(50ms, 300ms);
  EXPECT_EQ(backoff.peek(), 50ms);
  EXPECT_EQ(backoff.next(), 50ms);
  EXPECT_EQ(backoff.next(), 100ms);
  EXPECT_EQ(backoff.next(), 200ms);
  EXPECT_EQ(backoff.next(), 300ms);
  EXPECT_EQ(backoff.next(), 300ms);
  EXPECT_EQ(backoff.peek(), 300ms);
  backoff.reset();
  EXPECT_EQ(backoff.next(), 50ms);
}

TEST(Backoff, a_longer_limit_lets_it_go_on) {
  Backoff backoff(600ms, 5s);
  EXPECT_EQ(backoff.next(1s), 600ms);
  EXPECT_EQ(backoff.next(1s), 1s);
  EXPECT_EQ(backoff.next(1s), 1s);
  EXPECT_EQ(backoff.next(), 2s);
  EXPECT_EQ(backoff.next(), 4s);
  EXPECT_EQ(backoff.next(), 5s);
}

TEST(Backoff, never_overflows) {
  Backoff backoff(Duration::max() / 2 + Duration(1), Duration::max());
  backoff.next();
  EXPECT_GT(backoff.next(), Duration::zero());
  EXPECT_GT(backoff.next(), Duration::zero());
}

TEST(Backoff, a_first_pause_that_is_too_long_is_cut) {
  EXPECT_EQ(Backoff(2s, 1s).next(), 1s);
}

}  // namespace once::base::backoff_test
