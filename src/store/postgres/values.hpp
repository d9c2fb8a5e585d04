// Parameters and results in PostgreSQL's binary format, which needs no escaping or parsing. A parameter is an array
// with a value per operation, so that the text of a statement does not depend on the size of the batch.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "core/record.hpp"

struct pg_result;

namespace once::postgres {

// PostgreSQL's type OIDs.
enum class Type : std::uint16_t {
  boolean = 16,
  bytea = 17,
  int8 = 20,
  int2 = 21,
  int4 = 23,
  text = 25,
  timestamptz = 1184,
  interval = 1186,
};

// Writes one element of an array. Call exactly one of these per element.
class Element {
 public:
  explicit Element(std::string& out) : out_(out) {}

  void null();
  void bytes(std::string_view value);
  void boolean(bool value);
  void int2(std::int16_t value);
  void int4(std::int32_t value);
  void int8(std::int64_t value);
  void time(Time value);  // Time::max() is infinity
  void state(State value) { int2(static_cast<std::int16_t>(value)); }
  void length(Duration value);  // null if it is longer than any date reaches

 private:
  std::string& out_;
};

class Parameters {
 public:
  void array(Type type, const auto& items, auto&& write) {
    std::string& out = begin_array(type, items.size());
    for (const auto& item : items) {
      Element element(out);
      write(element, *item);
    }
  }
  void int2(std::int16_t value);
  void int8(std::int64_t value);
  void time(Time value);
  void bytes(std::string_view value) { values_.emplace_back(value); }

  const std::vector<std::string>& values() const { return values_; }

 private:
  std::string& begin_array(Type type, std::size_t size);

  std::vector<std::string> values_;
};

// The result of a statement. Columns have the types of the statement.
class Rows {
 public:
  explicit Rows(pg_result* result) : result_(result) {}

  std::size_t size() const;
  bool null(std::size_t row, int column) const;
  std::string_view bytes(std::size_t row, int column) const;
  bool boolean(std::size_t row, int column) const;
  std::int16_t int2(std::size_t row, int column) const;
  std::int32_t int4(std::size_t row, int column) const;
  std::int64_t int8(std::size_t row, int column) const;
  Time time(std::size_t row, int column) const;
  // The elements of a bytea[] without nulls.
  std::vector<std::string_view> bytes_array(std::size_t row, int column) const;
  template <class Blob>
  Blob blob(std::size_t row, int column) const {
    Blob value;
    const std::string_view from = bytes(row, column);
    if (from.size() == Blob::size) std::memcpy(value.bytes.data(), from.data(), from.size());
    return value;
  }

  // The end of a pipeline: everything before it is committed.
  bool is_sync() const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

}  // namespace once::postgres
