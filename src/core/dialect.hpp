// Dialects: named policies that match the expectations of one family of APIs. A route starts from one and may change
// any setting.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/policy.hpp"

namespace once::core {

// nullopt if no dialect has this name. Every field is filled in, also the record policy.
std::optional<Policy> dialect(std::string_view name);

// "ietf", the default, comes first.
std::span<const std::string_view> dialect_names();

}  // namespace once::core
