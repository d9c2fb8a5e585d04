// Paths: what comes out has nothing left to normalise, and another spelling of the same path comes out the same.
#include "core/path.hpp"

#include <string>

#include "tests/fuzz/input.hpp"

namespace {

// A second spelling: every byte but slashes escaped, twice as many slashes, and dots that lead nowhere.
std::string respelled(std::string_view normal) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < normal.size(); ++i) {
    const auto byte = static_cast<unsigned char>(normal[i]);
    if (byte == '/') {
      out += "/.//";
    } else if (byte == '%') {
      out += '%';  // an escape that stays, or a mark that is none: both stay
    } else if (i > 0 && (normal[i - 1] == '%' || (i > 1 && normal[i - 2] == '%'))) {
      out += normal[i];
    } else {
      out += '%';
      out += digits[byte >> 4U];
      out += digits[byte & 15U];
    }
  }
  return out;
}

}  // namespace

FUZZ(bytes) {
  const std::string path = "/" + std::string(bytes);
  std::string scratch;
  const auto found = once::core::normalise_path(path, scratch);
  if (!found) {
    ONCE_ASSERT(!once::core::describe(found.error()).empty());
    return;
  }
  const std::string normal(*found);
  ONCE_ASSERT(normal.starts_with('/') && normal.size() <= path.size());
  const std::string framed = normal + "/";
  ONCE_ASSERT(framed.find("/./") == std::string::npos && framed.find("/../") == std::string::npos);
  ONCE_ASSERT(normal.find("//") == std::string::npos);
  // A mark that is no escape may become one beside what was decoded, so "%%370" reads twice; only such paths may
  // change.
  if (normal.find('%') == std::string::npos) {
    std::string again;
    const auto twice = once::core::normalise_path(normal, again);
    ONCE_ASSERT(twice && *twice == normal);
    for (const char c : normal) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return;  // raw ones never pass the parser
    }
    std::string other;
    const auto same = once::core::normalise_path(respelled(normal), other);
    ONCE_ASSERT(same && *same == normal);
  }
}
