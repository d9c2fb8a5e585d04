// Replaces ${NAME} in a value by an environment variable. This happens after the YAML is parsed, so a variable can
// change neither the structure of a file nor the name of a setting.
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
  std::string variables;  // "${A}, ${B}": the replaced variables; empty: none
};

// $${ stands for ${, and any other $ for itself. The error never contains a variable's value.
std::expected<Replaced, std::string> replace_variables(std::string_view text, const Environ& environ);

}  // namespace once::config
