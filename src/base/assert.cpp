#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

#include "base/broken_invariant.hpp"

namespace once::base {

void note_broken_invariant(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "once: invariant broken: %s (%s:%d)\n", expression, file, line);
}

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  note_broken_invariant(expression, file, line);
  std::abort();
}

}  // namespace once::base
