#include "base/text.hpp"

#include <array>

#include <gtest/gtest.h>

namespace once::base::text_test {

using namespace std::chrono_literals;

TEST(Text, split_keeps_empty_parts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split(",", ','), (std::vector<std::string_view>{"", ""}));
}

TEST(Text, trim) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, iequals_folds_ascii_only) {
  EXPECT_TRUE(iequals("Content-Type", "content-TYPE"));
  EXPECT_FALSE(iequals("content", "content-type"));
  EXPECT_FALSE(iequals("@", "`"));
  EXPECT_FALSE(iequals("\xC4", "\xE4"));
}

TEST(Text, nearest_suggests_only_what_is_close) {
  constexpr std::array<std::string_view, 5> names = {"lease", "listen", "store", "ttl", "threads"};
  EXPECT_EQ(nearest("lese", names), "lease");
  EXPECT_EQ(nearest("Lease", names), "lease");
  EXPECT_EQ(nearest("tll", names), "ttl") << "a short word may differ by one letter";
  EXPECT_EQ(nearest("thread", names), "threads");
  EXPECT_EQ(nearest("colour", names), std::nullopt);
  EXPECT_EQ(nearest("x", names), std::nullopt);
  EXPECT_EQ(nearest("", names), std::nullopt);
  EXPECT_EQ(nearest(std::string(10'000, 'a'), names), std::nullopt);
}

TEST(Text, durations) {
  EXPECT_EQ(parse_duration("24h"), 24h);
  EXPECT_EQ(parse_duration("5m"), 5min);
  EXPECT_EQ(parse_duration("30s"), 30s);
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("7d"), 168h);
  EXPECT_EQ(parse_duration("0s"), 0s);
  for (const std::string_view bad : {"", "soon", "24", "h", "24 h", " 24h", "24h ", "-1s", "+1s", "1.5s", "1h30m",
                                     "24H", "0x1s", "9999999999999999999s", "9223372036854775807d"}) {
    EXPECT_EQ(parse_duration(bad), std::nullopt) << bad;
  }
}

TEST(Text, durations_are_written_in_the_largest_exact_unit) {
  EXPECT_EQ(format_duration(24h), "24h");
  EXPECT_EQ(format_duration(48h), "2d");
  EXPECT_EQ(format_duration(25h), "25h");
  EXPECT_EQ(format_duration(90s), "90s");
  EXPECT_EQ(format_duration(1500ms), "1500ms");
  EXPECT_EQ(format_duration(0s), "0s");
  for (const Duration duration : {Duration(1ms), Duration(999ms), Duration(60s), Duration(3601s), Duration(168h)}) {
    EXPECT_EQ(parse_duration(format_duration(duration)), duration);
  }
}

TEST(Text, sizes) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("12B"), 12U);
  EXPECT_EQ(parse_size("64KiB"), 65536U);
  EXPECT_EQ(parse_size("1MiB"), 1048576U);
  EXPECT_EQ(parse_size("10MB"), 10'000'000U);
  EXPECT_EQ(parse_size("2GiB"), std::size_t{2} << 30U);
  for (const std::string_view bad : {"", "MiB", "1 MiB", "-1", "1.5MiB", "1mib", "1k", "99999999999999TiB"}) {
    EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
  }
}

TEST(Text, sizes_are_written_in_the_largest_exact_unit) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(1000), "1KB");
  EXPECT_EQ(format_size(1024), "1KiB");
  EXPECT_EQ(format_size(1025), "1025");
  EXPECT_EQ(format_size(std::size_t{256} << 20U), "256MiB");
  EXPECT_EQ(format_size(10'000'000), "10MB");
}

TEST(Text, times_are_rfc_3339_with_milliseconds) {
  EXPECT_EQ(rfc3339(Time(Duration(1'763'225'643'007))), "2025-11-15T16:54:03.007Z");
}

}  // namespace once::base::text_test
