// Writes the stderr line about a broken invariant, without ending the process as ONCE_ASSERT does.
#pragma once

#include "base/layers.hpp"

namespace once::base {

void note_broken_invariant(const char* expression, const char* file, int line) noexcept;

}  // namespace once::base
