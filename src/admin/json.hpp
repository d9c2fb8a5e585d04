// A streaming JSON writer. It writes the commas; the caller must match begin and end.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/json_text.hpp"

namespace once::admin {

class Json {
 public:
  Json& begin(char bracket) {
    separate();
    text_ += bracket;
    return *this;
  }
  Json& end(char bracket) {
    text_ += bracket;
    return *this;
  }
  Json& name(std::string_view name) {
    separate();
    append_json_string(text_, name);
    text_ += ':';
    return *this;
  }
  Json& value(std::string_view text) {
    separate();
    append_json_string(text_, text);
    return *this;
  }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(std::same_as<bool> auto yes) { return raw(yes ? "true" : "false"); }
  Json& value(std::integral auto number)
    requires(!std::same_as<decltype(number), bool>)
  {
    return raw(fmt::to_string(number));
  }
  // Six digits are enough for display; NaN and infinity become null.
  Json& value(double number) { return raw(std::isfinite(number) ? fmt::format("{:.6g}", number) : "null"); }
  Json& value(const std::optional<double>& number) { return number ? value(*number) : raw("null"); }

  template <class Value>
  Json& member(std::string_view its_name, const Value& its_value) {
    name(its_name);
    return value(its_value);
  }
  Json& member(std::string_view its_name, const std::string& its_value) {
    name(its_name);
    return value(std::string_view(its_value));
  }

  std::string take() { return std::move(text_); }

 private:
  Json& raw(std::string_view token) {
    separate();
    text_ += token;
    return *this;
  }
  void separate() {
    if (text_.empty()) return;
    const char last = text_.back();
    if (last != '{' && last != '[' && last != ':') text_ += ',';
  }

  std::string text_;
};

}  // namespace once::admin
