#include "client/retry_after.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/text.hpp"

namespace once::client {

namespace {

// Longer than any wait, and short enough to add without overflow.
constexpr std::uint64_t longest_seconds = std::uint64_t{10} * 365 * 86'400;

constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::vector<std::string_view> words(std::string_view text) {
  constexpr std::string_view separators = " ,-";
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(separators);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(separators, begin), text.size());
    found.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return found;
}

std::optional<unsigned> number_below(std::string_view text, unsigned limit) {
  const auto number = parse_number(text);
  if (!number || *number >= limit) return std::nullopt;
  return static_cast<unsigned>(*number);
}

std::optional<std::chrono::seconds> time_of_day(std::string_view text) {
  const auto parts = split(text, ':');
  if (parts.size() != 3) return std::nullopt;
  const auto hour = number_below(parts[0], 24);
  const auto minute = number_below(parts[1], 60);
  const auto second = number_below(parts[2], 61);  // a leap second
  if (!hour || !minute || !second) return std::nullopt;
  return std::chrono::hours(*hour) + std::chrono::minutes(*minute) + std::chrono::seconds(*second);
}

struct Parts {
  std::string_view day, month, year, time;
};

std::optional<Time> assemble(const Parts& parts, Time now) {
  const auto day = number_below(parts.day, 32);
  const auto month = std::ranges::find(months, parts.month);
  auto year = number_below(parts.year, 10'000);
  const auto time = time_of_day(parts.time);
  if (!day || month == months.end() || !year || !time) return std::nullopt;
  if (parts.year.size() == 2) {
    // RFC 9110: a two-digit year that seems more than 50 years in the future means the most recent year with these
    // digits.
    const std::chrono::year_month_day today(std::chrono::floor<std::chrono::days>(now));
    const int this_year = static_cast<int>(today.year());
    int full = this_year - this_year % 100 + static_cast<int>(*year);
    if (full > this_year + 50) full -= 100;
    year = static_cast<unsigned>(full);
  }
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(month - months.begin()) + 1),
                                         std::chrono::day(*day));
  if (!date.ok()) return std::nullopt;
  return Time(std::chrono::sys_days(date)) + *time;
}

}  // namespace

std::optional<Time> parse_http_date(std::string_view text, Time now) {
  const auto found = words(text);
  // The parts after the name of the day, which is redundant.
  if (found.size() == 6 && found[5] == "GMT") {
    return assemble({.day = found[1], .month = found[2], .year = found[3], .time = found[4]}, now);
  }
  if (found.size() == 5) {
    return assemble({.day = found[2], .month = found[1], .year = found[4], .time = found[3]}, now);
  }
  return std::nullopt;
}

std::optional<Duration> parse_retry_after(std::string_view value, Time now) {
  value = trim(value);
  const bool digits = !value.empty() && std::ranges::all_of(value, [](char c) { return c >= '0' && c <= '9'; });
  if (digits) {
    const std::uint64_t seconds = std::min(parse_number(value).value_or(longest_seconds), longest_seconds);
    return std::chrono::seconds(seconds);
  }
  const auto date = parse_http_date(value, now);
  if (!date) return std::nullopt;
  return std::clamp<Duration>(*date - now, Duration::zero(), std::chrono::seconds(longest_seconds));
}

}  // namespace once::client
