// An outcome that nobody looks at.
#include <once/guard.hpp>

void call(once::Guard& guard) {
  guard.run({.scope = "s", .key = "k"}, [] { return std::string(); });
}
