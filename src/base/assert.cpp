#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace once {

void assertion_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "once: invariant broken: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace once
