// Reason phrases for status lines that Once writes.
#pragma once

#include <string_view>

#include "base/layers.hpp"

namespace once::core {

// Empty for a status without a registered phrase, which HTTP/1.1 permits.
std::string_view reason_phrase(int status);

}  // namespace once::core
