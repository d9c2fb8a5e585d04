#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>

#include <fmt/format.h>

namespace once::base {

namespace {

constexpr std::uint64_t day_ms = 86'400'000;
constexpr std::array<Unit, 5> duration_units = {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000}, Unit{"h", 3'600'000},
                                                Unit{"d", day_ms}};

constexpr std::array<Unit, 9> size_units = {Unit{"", 1},
                                            Unit{"B", 1},
                                            Unit{"KB", 1000},
                                            Unit{"MB", 1000000},
                                            Unit{"GB", 1000000000},
                                            Unit{"KiB", std::uint64_t{1} << 10U},
                                            Unit{"MiB", std::uint64_t{1} << 20U},
                                            Unit{"GiB", std::uint64_t{1} << 30U},
                                            Unit{"TiB", std::uint64_t{1} << 40U}};

// A number directly followed by one of the units, as a product that fits in 63 bits.
std::optional<std::uint64_t> parse_with_unit(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_number(text.substr(0, digits));
  const auto unit = std::ranges::find(units, text.substr(digits), &Unit::name);
  if (!number || unit == units.end()) return std::nullopt;
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (*number > largest / unit->factor) return std::nullopt;
  return *number * unit->factor;
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Levenshtein, with letters compared regardless of case.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(left[i]) == lower(right[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

bool iequals(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, {}, lower, lower);
}

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates) {
  // Words come from outside: long ones are skipped, because the cost grows with the square of their length.
  if (word.empty() || word.size() > 64) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed_to, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc() || parsed_to != end) return std::nullopt;
  return number;
}

std::span<const Unit> units_of_time() {
  return duration_units;
}

std::span<const Unit> units_of_size() {
  return size_units;
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto value = parse_with_unit(text, duration_units);
  if (!value) return std::nullopt;
  return Duration(static_cast<Duration::rep>(*value));
}

std::string format_duration(Duration duration) {
  if (duration <= Duration::zero()) return "0s";
  const auto value = static_cast<std::uint64_t>(duration.count());
  const Unit* best = &duration_units.front();
  for (const Unit& unit : duration_units) {
    // "24h" is more common than "1d".
    if (value % unit.factor == 0 && (unit.factor != day_ms || value > day_ms)) best = &unit;
  }
  return fmt::format("{}{}", value / best->factor, best->name);
}

std::optional<std::size_t> parse_size(std::string_view text) {
  return parse_with_unit(text, size_units);
}

std::string format_size(std::size_t size) {
  const Unit* best = &size_units.front();
  for (const Unit& unit : size_units) {
    if (size != 0 && size % unit.factor == 0 && unit.factor > best->factor) best = &unit;
  }
  return fmt::format("{}{}", size / best->factor, best->name);
}

std::string rfc3339(Time time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

}  // namespace once::base
