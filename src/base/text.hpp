// Small text helpers, and times, durations and sizes in human notation: "24h", "500ms", "1MiB". Parsing is strict:
// other text is rejected, never guessed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace once::base {

// "a,,b" has three parts; "" has one, empty.
std::vector<std::string_view> split(std::string_view text, char separator);
// The text without blanks, tabs and line ends on both sides.
std::string_view trim(std::string_view text);
// Ignores the case of ASCII letters, for header names and the like.
bool iequals(std::string_view left, std::string_view right);

// The candidate that `word` was most likely meant to be, if any is close enough to suggest.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

// Decimal digits only.
std::optional<std::uint64_t> parse_number(std::string_view text);

// Units that may follow a number, and their size in milliseconds or bytes.
struct Unit {
  std::string_view name;
  std::uint64_t factor;
};
std::span<const Unit> units_of_time();
std::span<const Unit> units_of_size();

// One number and one unit: ms, s, m, h or d.
std::optional<Duration> parse_duration(std::string_view text);
// In the largest unit that is exact; a day is "24h", a week "7d".
std::string format_duration(Duration duration);

// Bytes, or a number with B, KB, MB, GB (thousands) or KiB, MiB, GiB, TiB (1024).
std::optional<std::size_t> parse_size(std::string_view text);
std::string format_size(std::size_t size);

// "2026-11-15T04:03:14.455Z" (RFC 3339), to the millisecond.
std::string rfc3339(Time time);

// Appends decimal digits without a temporary string.
void append_number(std::string& out, std::uint64_t number);

}  // namespace once::base
