// Replaces ${NAME} in a value by an environment variable, after the YAML is parsed, so that a variable can change
// neither the structure of a file nor the name of a setting.
#pragma once

#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/layers.hpp"

namespace once::config {

// The value of an environment variable, if it is set.
using Environ = std::function<std::optional<std::string>(std::string_view name)>;

struct Replaced {
  std::string text;
  std::string variables;  // "${A}, ${B}": those that were replaced; empty: none
};

// $${ is ${ as it stands, and any other $ is itself. The error says what is wrong, and holds no variable's value.
std::expected<Replaced, std::string> replace_variables(std::string_view text, const Environ& environ);

}  // namespace once::config
