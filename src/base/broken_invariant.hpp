// The line on stderr that tells of a broken invariant, without the end that ONCE_ASSERT makes of it.
#pragma once

namespace once {

void note_broken_invariant(const char* expression, const char* file, int line) noexcept;

}  // namespace once
