// What cannot be called is no work.
#include <once/guard.hpp>

void call(once::Guard& guard) {
  std::ignore = guard.run({.scope = "s", .key = "k"}, [](int) { return std::string(); });
}
