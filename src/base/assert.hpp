// Invariants, checked in release builds too. Never assert on outside input: answer it.
#pragma once

#include "base/layers.hpp"

namespace once::base {

// Ends the process, unless a handler was set.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

// A library must not end its host process. The handler gets a line that describes the broken invariant and must not
// return: it parks the thread, or throws. Set for the whole process; null: the process ends.
using BrokenInvariantHandler = void (*)(const char* line);
void on_broken_invariant(BrokenInvariantHandler handler) noexcept;

}  // namespace once::base

#define ONCE_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::once::base::assertion_failed(#expression, __FILE__, __LINE__))
