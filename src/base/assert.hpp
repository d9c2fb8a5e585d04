// Invariants, checked in release builds too. Never assert on outside input: answer it.
#pragma once

#include "base/layers.hpp"

namespace once::base {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace once::base

#define ONCE_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::once::base::assertion_failed(#expression, __FILE__, __LINE__))
