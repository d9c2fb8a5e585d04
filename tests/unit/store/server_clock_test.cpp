#include "store/server/server_clock.hpp"

#include <gtest/gtest.h>

namespace once::store {
namespace server_clock_test {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr Time noon = Time(hours(500'000));

TEST(ServerClock, what_nobody_told_is_not_known) {
  EXPECT_EQ(ServerClock().latest_at(hours(1)), Time());
}

TEST(ServerClock, advances_from_the_last_report_and_is_never_behind) {
  ServerClock clock;
  // The server's clock was read to the millisecond, at any moment after this.
  clock.learn(noon, seconds(100));
  EXPECT_EQ(clock.latest_at(seconds(100)), noon + milliseconds(1));
  EXPECT_EQ(clock.latest_at(seconds(105)), noon + milliseconds(5001));
  EXPECT_EQ(clock.latest_at(seconds(105) + nanoseconds(1)), noon + milliseconds(5002));
  clock.learn(noon, seconds(100) + microseconds(999));
  EXPECT_EQ(clock.latest_at(seconds(105)), noon + milliseconds(5001));
}

TEST(ServerClock, believes_the_last_answer) {
  ServerClock clock;
  clock.learn(noon, seconds(100));
  clock.learn(noon + hours(2), seconds(101));
  EXPECT_EQ(clock.latest_at(seconds(101)), noon + hours(2) + milliseconds(1));
  clock.learn(noon - hours(2), seconds(102));
  EXPECT_EQ(clock.latest_at(seconds(102)), noon - hours(2) + milliseconds(1));
}

TEST(ServerClock, knows_the_end_of_a_call_without_a_limit) {
  ServerClock clock;
  clock.learn(noon, seconds(100));
  EXPECT_GT(clock.latest_at(nanoseconds::max()), noon + hours(24 * 365 * 100));
}

}  // namespace server_clock_test
}  // namespace once::store
