// A small JSON document as a tree, for tokens and key sets. Request bodies are never parsed into a tree
// (json_canonical.hpp).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/layers.hpp"

namespace once::core {

class JsonTree {
 public:
  struct Null {
    bool operator==(const Null&) const = default;
  };
  struct Number {
    std::string text;       // as written
    std::string canonical;  // the same for all spellings of the value
    bool operator==(const Number&) const = default;
  };
  using Array = std::vector<JsonTree>;
  using Member = std::pair<std::string, JsonTree>;
  using Object = std::vector<Member>;
  using Value = std::variant<Null, bool, Number, std::string, Array, Object>;

  // nullopt unless `json` is one valid JSON text (RFC 8259, UTF-8) of at most max_json_depth levels, without duplicate
  // names in an object and without lone surrogates in strings.
  static std::optional<JsonTree> parse(std::string_view json);

  JsonTree() = default;
  explicit JsonTree(Value value) : value_(std::move(value)) {}

  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const Number* number() const { return std::get_if<Number>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  bool is_null() const { return std::holds_alternative<Null>(value_); }

  // The member of that name; null if there is none or this is no object.
  const JsonTree* find(std::string_view name) const;
  // The value at a JSON pointer's tokens, through objects only; null if there is none.
  const JsonTree* find(const std::vector<std::string>& tokens) const;

 private:
  Value value_ = Null();
};

}  // namespace once::core
