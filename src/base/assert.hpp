// Invariants, checked in release builds too. Never assert on outside input: answer it.
#pragma once

namespace once {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace once

#define ONCE_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::once::assertion_failed(#expression, __FILE__, __LINE__))
