#include "store/postgres/values.hpp"

#include <bit>
#include <concepts>
#include <limits>

#include <libpq-fe.h>

#include "base/assert.hpp"
#include "base/text.hpp"

namespace once::postgres {

namespace {

// From 1970, our epoch, to 2000, PostgreSQL's.
constexpr Duration epoch = std::chrono::milliseconds(946'684'800'000);
constexpr std::int64_t infinity = std::numeric_limits<std::int64_t>::max();
// PostgreSQL's dates end in the year 294276; longer durations than this count as infinite.
constexpr Duration longest_interval = std::chrono::years(1000);

void append(std::string& out, std::integral auto value) {
  const auto big_endian = std::byteswap(value);
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&big_endian), sizeof big_endian);
}

template <std::integral T>
T read(std::string_view bytes) {
  T value{};
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return std::byteswap(value);
}

// A time in PostgreSQL's units; Time::max() is infinity.
std::int64_t microseconds_of(Time value) {
  return value == Time::max() ? infinity : std::chrono::microseconds(value.time_since_epoch() - epoch).count();
}

void append_sized(std::string& out, std::integral auto value) {
  append(out, static_cast<std::int32_t>(sizeof value));
  append(out, value);
}

}  // namespace

void Element::null() {
  append(out_, std::int32_t{-1});
}

void Element::bytes(std::string_view value) {
  append(out_, static_cast<std::int32_t>(value.size()));
  out_.append(value);
}

void Element::boolean(bool value) {
  append_sized(out_, static_cast<std::int8_t>(value));
}

void Element::int2(std::int16_t value) {
  append_sized(out_, value);
}

void Element::int4(std::int32_t value) {
  append_sized(out_, value);
}

void Element::int8(std::int64_t value) {
  append_sized(out_, value);
}

void Element::time(Time value) {
  int8(microseconds_of(value));
}

void Element::length(Duration value) {
  if (value > longest_interval) return null();
  append(out_, std::int32_t{16});
  append(out_, std::int64_t{std::chrono::microseconds(value).count()});
  append(out_, std::int32_t{0});  // days
  append(out_, std::int32_t{0});  // months
}

std::string& Parameters::begin_array(Type type, std::size_t size) {
  std::string& out = values_.emplace_back();
  append(out, std::int32_t{size == 0 ? 0 : 1});  // dimensions
  append(out, std::int32_t{1});                  // nulls are possible
  append(out, static_cast<std::uint32_t>(type));
  if (size == 0) return out;
  append(out, static_cast<std::int32_t>(size));
  append(out, std::int32_t{1});  // the lower bound
  return out;
}

void Parameters::int2(std::int16_t value) {
  append(values_.emplace_back(), value);
}

void Parameters::int8(std::int64_t value) {
  append(values_.emplace_back(), value);
}

void Parameters::time(Time value) {
  int8(microseconds_of(value));
}

void Rows::Clear::operator()(pg_result* result) const {
  PQclear(result);
}

std::size_t Rows::size() const {
  return static_cast<std::size_t>(PQntuples(result_.get()));
}

bool Rows::null(std::size_t row, int column) const {
  return PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
}

std::string_view Rows::bytes(std::size_t row, int column) const {
  const int at = static_cast<int>(row);
  return {PQgetvalue(result_.get(), at, column), static_cast<std::size_t>(PQgetlength(result_.get(), at, column))};
}

bool Rows::boolean(std::size_t row, int column) const {
  return bytes(row, column) == std::string_view("\1", 1);
}

std::int16_t Rows::int2(std::size_t row, int column) const {
  return read<std::int16_t>(bytes(row, column));
}

std::int32_t Rows::int4(std::size_t row, int column) const {
  return read<std::int32_t>(bytes(row, column));
}

std::int64_t Rows::int8(std::size_t row, int column) const {
  return read<std::int64_t>(bytes(row, column));
}

Time Rows::time(std::size_t row, int column) const {
  const auto value = read<std::int64_t>(bytes(row, column));
  if (value == infinity) return Time::max();
  return Time(std::chrono::floor<Duration>(std::chrono::microseconds(value)) + epoch);
}

std::vector<std::string_view> Rows::bytes_array(std::size_t row, int column) const {
  constexpr std::size_t header = 5 * sizeof(std::int32_t);  // dimensions, nulls, type; size, first index
  constexpr std::size_t size_at = 3 * sizeof(std::int32_t);
  std::string_view from = bytes(row, column);
  if (from.size() < header) return {};  // no dimensions: it is empty
  std::vector<std::string_view> values;
  values.reserve(static_cast<std::size_t>(read<std::int32_t>(from.substr(size_at, sizeof(std::int32_t)))));
  from.remove_prefix(header);
  while (from.size() >= sizeof(std::int32_t)) {
    const auto length = static_cast<std::size_t>(read<std::int32_t>(from.substr(0, sizeof(std::int32_t))));
    from.remove_prefix(sizeof(std::int32_t));
    values.push_back(from.substr(0, length));
    from.remove_prefix(values.back().size());
  }
  return values;
}

bool Rows::is_sync() const {
  return PQresultStatus(result_.get()) == PGRES_PIPELINE_SYNC;
}

}  // namespace once::postgres
