// Header and trailer fields as a value: names are tokens, and values are one line of text. They are kept as the lines
// that HTTP/1 writes, one after the other, so that a message's fields are written and recorded with one copy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::core {

struct Field {
  std::string_view name;
  std::string_view value;  // without white space around it
  std::string_view line;   // name, colon, value and CRLF; a received field keeps its spelling
};

constexpr bool is_token_char(char c) {
  return c > ' ' && c < 0x7F && !std::string_view("\"(),/:;<=>?@[\\]{}").contains(c);
}
// RFC 9110 5.6.2.
constexpr bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_token_char);
}
// Whether the text can be the value of a field: it has no control character except tab.
bool is_field_value(std::string_view text);

// The name of a field that we add. A literal is checked when it is compiled.
class FieldName {
 public:
  template <std::size_t Size>
  consteval FieldName(const char (&literal)[Size]) : text_(literal, Size - 1) {  // NOLINT(*-explicit-*)
    if (!is_token(text_)) throw "not a token";
  }
  // Asserts that it is a token.
  static FieldName of_token(std::string_view token);

  std::string_view text() const { return text_; }

 private:
  struct Checked {};
  FieldName(Checked, std::string_view text) : text_(text) {}

  std::string_view text_;
};

// The fields of a message or of a record, without a copy.
class FieldsView {
 public:
  FieldsView() = default;
  // Lines of fields, each with its CRLF. A line without a colon is a field without a value.
  static FieldsView of_lines(std::string_view lines) { return FieldsView(lines); }

  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(std::string_view rest) : rest_(rest) { read(); }
    const Field& operator*() const { return field_; }
    const Field* operator->() const { return &field_; }
    Iterator& operator++() {
      rest_.remove_prefix(field_.line.size());
      read();
      return *this;
    }
    bool operator==(const Iterator& other) const { return rest_.size() == other.rest_.size(); }

   private:
    void read();

    std::string_view rest_;
    Field field_;
  };
  Iterator begin() const { return Iterator(lines_); }
  Iterator end() const { return Iterator(lines_.substr(lines_.size())); }

  bool empty() const { return lines_.empty(); }
  // The value of the first field of that name.
  std::optional<std::string_view> find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name).has_value(); }
  std::string_view lines() const { return lines_; }

 private:
  explicit FieldsView(std::string_view lines) : lines_(lines) {}

  std::string_view lines_;
};

class Fields {
 public:
  // Asserts is_field_value(value).
  void add(FieldName name, std::string_view value);
  void add(FieldName name, std::uint64_t value);
  // A value in parts: append to the returned text, then call end_value().
  std::string& begin_value(FieldName name);
  void end_value();
  // A field of another message, with its spelling.
  void add(const Field& field) { lines_.append(field.line); }
  void add(FieldsView fields) { lines_.append(fields.lines()); }

  FieldsView view() const { return FieldsView::of_lines(lines_); }
  FieldsView::Iterator begin() const { return view().begin(); }
  FieldsView::Iterator end() const { return view().end(); }
  bool empty() const { return lines_.empty(); }
  std::optional<std::string_view> find(std::string_view name) const { return view().find(name); }
  bool has(std::string_view name) const { return view().has(name); }
  std::string_view lines() const { return lines_; }

  void clear() { lines_.clear(); }
  void release_memory() { std::string().swap(lines_); }

 private:
  std::string lines_;
  std::size_t value_begin_ = 0;  // of the value in parts
};

}  // namespace once::core
