#include "core/fields.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/text.hpp"
#include "core/headers.hpp"

namespace once::core {

namespace {

constexpr std::string_view field_end = "\r\n";

}  // namespace

FieldName FieldName::of_token(std::string_view token) {
  ONCE_ASSERT(is_token(token));
  return {Checked(), token};
}

bool is_field_value(std::string_view text) {
  bool found = false;  // without an early end, the loop is vectorised
  for (const char c : text) found |= c == '\r' || c == '\n' || c == '\0';
  return !found;
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
