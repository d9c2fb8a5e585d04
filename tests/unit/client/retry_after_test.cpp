#include "client/retry_after.hpp"

#include <gtest/gtest.h>

namespace once::client::retry_after_test {

using namespace std::chrono_literals;

// 6 November 1994, 08:49:37 GMT: RFC 9110's own example.
constexpr Time example{std::chrono::seconds(784'111'777)};

TEST(RetryAfter, seconds) {
  EXPECT_EQ(parse_retry_after("0", example), 0s);
  EXPECT_EQ(parse_retry_after("120", example), 120s);
  EXPECT_EQ(parse_retry_after("  7 ", example), 7s);
}

TEST(RetryAfter, dates_in_all_three_forms_count_from_now) {
  for (const char* date :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"}) {
    SCOPED_TRACE(date);
    EXPECT_EQ(parse_http_date(date, example), example);
    EXPECT_EQ(parse_retry_after(date, example - 90s), 90s);
    EXPECT_EQ(parse_retry_after(date, example + 90s), 0s) << "a date that has passed means now";
  }
}

TEST(RetryAfter, two_digit_years_are_the_nearest_that_make_sense) {
  const Time in_2026{std::chrono::sys_days(std::chrono::year(2026) / 11 / 15)};
  EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", in_2026), example);
  EXPECT_EQ(parse_http_date("Sunday, 15-Nov-26 00:00:00 GMT", in_2026), in_2026);
}

TEST(RetryAfter, what_is_neither_says_nothing) {
  for (const char* value : {"", "-1", "1.5", "soon", "1 2", "0x10", "Sun, 31 Feb 1994 08:49:37 GMT",
                            "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
                            "Sun, 06 Nov 1994 08:49 GMT", "Sun, 06 Nox 1994 08:49:37 GMT", "06 Nov 1994"}) {
    SCOPED_TRACE(value);
    EXPECT_EQ(parse_retry_after(value, example), std::nullopt);
  }
}

TEST(RetryAfter, enormous_values_are_cut_and_do_not_overflow) {
  const auto longest = parse_retry_after("99999999999999999999999999", example);
  ASSERT_TRUE(longest);
  EXPECT_EQ(*longest, 10 * 365 * 24h);
  EXPECT_EQ(parse_retry_after("18446744073709551615", example), longest);
  EXPECT_EQ(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", example), longest);
}

}  // namespace once::client::retry_after_test
