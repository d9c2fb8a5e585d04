// A codec that cannot decode.
#include <once/guard.hpp>

struct Copy {};

template <>
struct once::guard::Codec<Copy> {
  static constexpr std::string_view media_type = "text/plain";
  static std::string encode(const Copy&) { return {}; }
  static Copy decode(std::string_view) { return {}; }
};

void call(once::Guard& guard) {
  std::ignore = guard.run({.scope = "s", .key = "k"}, [] { return Copy(); });
}
