// Writes a line about a broken invariant to stderr without ending the process, unlike ONCE_ASSERT.
#pragma once

#include "base/layers.hpp"

namespace once::base {

void note_broken_invariant(const char* expression, const char* file, int line) noexcept;

}  // namespace once::base
