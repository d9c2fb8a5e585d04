#include "base/assert.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/broken_invariant.hpp"

namespace once::base {

namespace {

std::atomic<BrokenInvariantHandler> broken_handler = nullptr;

}  // namespace

void note_broken_invariant(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "once: invariant broken: %s (%s:%d)\n", expression, file, line);
}

void on_broken_invariant(BrokenInvariantHandler handler) noexcept {
  broken_handler.store(handler);
}

void assertion_failed(const char* expression, const char* file, int line) {
  if (const BrokenInvariantHandler handler = broken_handler.load()) {
    std::array<char, 512> text{};
    std::snprintf(text.data(), text.size(), "invariant broken: %s (%s:%d)", expression, file, line);
    handler(text.data());
  }
  note_broken_invariant(expression, file, line);
  std::abort();
}

}  // namespace once::base
