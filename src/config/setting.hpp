// A setting: its name, expected values, description, and how it is set and read. The tables in settings.hpp consist of
// these. The parser, the checks, the command line and the reference page are all derived from them.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "config/codec.hpp"

namespace once::config {

using Values = std::vector<std::string>;

enum class Shape : std::uint8_t {
  one,   // a single value
  list,  // any number of values; a single one needs no brackets
  map,   // names with one value each; set() is called once per entry with name and value
};

inline constexpr std::size_t most_list_items = 100;

// The number of values that a list accepts.
struct Items {
  std::size_t least = 0;
  std::size_t most = most_list_items;
};

template <class Target>
struct Setting {
  std::string_view name;  // dotted: "key.header"
  Shape shape = Shape::one;
  std::string expected;
  std::string range;  // empty: no range
  std::string_view help;
  std::function<Parsed<void>(Target&, const Values&)> set;
  std::function<Values(const Target&)> get;
  Syntax syntax;          // of the value, of each item, or of each entry's value
  std::string_view none;  // a word for the empty list; may be empty
  Items items;            // for a list
};

template <class Target>
using Settings = std::vector<Setting<Target>>;

// Accesses a T in a Target, given as [](auto& policy) -> auto& { return policy.ttl; }. Stored as two plain pointers,
// so that all settings of one type share their code.
template <class Target, class T>
struct Field {
  template <class Accessor>
  Field(Accessor accessor) : edit(accessor), read(accessor) {}  // NOLINT(google-explicit-constructor): for lambdas

  T& (*edit)(Target&);
  const T& (*read)(const Target&);
};

template <class Target, class T>
Setting<Target> one(std::string_view name, std::type_identity_t<Field<Target, T>> field, const Codec<T>& codec,
                    std::string_view help) {
  return {
      .name = name,
      .shape = Shape::one,
      .expected = codec.expected,
      .range = codec.range,
      .help = help,
      .set = [field, parse = codec.parse](Target& target, const Values& values) -> Parsed<void> {
        auto value = parse(values.at(0));
        if (!value) return std::unexpected(value.error());
        field.edit(target) = std::move(*value);
        return {};
      },
      .get = [field, format = codec.format](const Target& target) { return Values{format(field.read(target))}; },
      .syntax = codec.syntax,
  };
}

// Refuses duplicates, and too many values.
Parsed<void> check_list(const Values& values);

// A list stored in a vector. `none`, if not empty, is the word for the empty list.
template <class Target, class T>
Setting<Target> list(std::string_view name, std::type_identity_t<Field<Target, std::vector<T>>> field,
                     const Codec<T>& codec, std::string_view none, std::string_view help) {
  const std::string or_none = none.empty() ? "" : fmt::format(", or {}", none);
  return {
      .name = name,
      .shape = Shape::list,
      .expected = fmt::format("a list, each {}{}", codec.expected, or_none),
      .range = codec.range,
      .help = help,
      .set = [=, parse = codec.parse](Target& target, const Values& values) -> Parsed<void> {
        if (const auto checked = check_list(values); !checked) return checked;
        std::vector<T> items;
        if (none.empty() || values != Values{std::string(none)}) {
          for (const std::string& value : values) {
            auto item = parse(value);
            if (!item) return std::unexpected(item.error());
            items.push_back(std::move(*item));
          }
        }
        field.edit(target) = std::move(items);
        return {};
      },
      .get = [=, format = codec.format](const Target& target) -> Values {
        Values values;
        for (const T& item : field.read(target)) values.push_back(format(item));
        if (values.empty() && !none.empty()) values.emplace_back(none);
        return values;
      },
      .syntax = codec.syntax,
      .none = none,
  };
}

// "24h", "[POST, PATCH]": in the syntax of --set name=. read_values() is the inverse.
std::string show_values(Shape shape, const Values& values);
Values read_values(Shape shape, std::string_view text);

}  // namespace once::config
