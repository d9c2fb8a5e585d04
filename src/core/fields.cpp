#include "core/fields.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::core {

namespace {

constexpr std::string_view field_end = "\r\n";

bool is_field_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte == '\t' || (byte >= 0x20 && byte != 0x7f);
}

}  // namespace

FieldName FieldName::of_token(std::string_view token) {
  ONCE_ASSERT(is_token(token));
  return {Checked(), token};
}

// Eight bytes at a time, because values are most of a head.
bool is_field_value(std::string_view text) {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  constexpr std::uint64_t highs = 0x80 * ones;
  while (text.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    const std::uint64_t below_space = (word - 0x20 * ones) & ~word & highs;
    const std::uint64_t not_delete = word ^ (0x7f * ones);
    const std::uint64_t is_delete = (not_delete - ones) & ~not_delete & highs;
    // The tests may flag a good byte next to a bad one, and they flag tabs, which are good: check each byte.
    if ((below_space | is_delete) != 0 && !std::ranges::all_of(text.substr(0, sizeof word), is_field_char))
      return false;
    text.remove_prefix(sizeof word);
  }
  return std::ranges::all_of(text, is_field_char);
}

void FieldsView::Iterator::read() {
  if (rest_.empty()) return;
  const std::string_view line = rest_.substr(0, rest_.find(field_end));
  const std::size_t colon = std::min(line.find(':'), line.size());
  field_ = {.name = line.substr(0, colon),
            .value = trim(line.substr(std::min(colon + 1, line.size()))),
            .line = rest_.substr(0, line.size() + field_end.size())};
}

std::optional<std::string_view> FieldsView::find(std::string_view name) const {
  for (const Field& field : *this) {
    if (same_name(field.name, name)) return field.value;
  }
  return std::nullopt;
}

void Fields::add(FieldName name, std::string_view value) {
  begin_value(name).append(value);
  end_value();
}

void Fields::add(FieldName name, std::uint64_t value) {
  append_number(begin_value(name), value);
  end_value();
}

std::string& Fields::begin_value(FieldName name) {
  lines_.append(name.text()).append(": ");
  value_begin_ = lines_.size();
  return lines_;
}

void Fields::end_value() {
  ONCE_ASSERT(is_field_value(std::string_view(lines_).substr(value_begin_)));
  lines_.append(field_end);
}

}  // namespace once::core
