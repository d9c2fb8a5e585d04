// The result of reserving memory or disk space within a limit.
#pragma once

#include <cstdint>

#include "base/layers.hpp"

namespace once::base {

enum class Reserved : std::uint8_t { no, yes };

}  // namespace once::base
