// The work returns a type that has no codec.
#include <once/guard.hpp>

struct Copy {};

void call(once::Guard& guard) {
  std::ignore = guard.run({.scope = "s", .key = "k"}, [] { return Copy(); });
}
