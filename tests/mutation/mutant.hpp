// The switch of the mutants in tests/mutation/patches. Every source of that build is compiled with this header, and
// nothing else is. ONCE_MUTANT in the environment names the one mutant that is on.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace once {

inline bool mutant(std::string_view name) {
  static const char* const chosen = std::getenv("ONCE_MUTANT");
  return chosen != nullptr && name == chosen;
}

// A statement or a script with `from` replaced, for mutants in text. The runner knows what it prints.
inline std::string_view swapped(std::string_view text, std::string_view from, std::string_view to) {
  auto* const made = new std::string(text);
  const std::size_t at = made->find(from);
  if (at == std::string::npos || made->find(from, at + 1) != std::string::npos) {
    std::fprintf(stderr, "\nmutant does not apply: \"%s\" is not there exactly once\n", std::string(from).c_str());
    std::_Exit(125);
  }
  made->replace(at, from.size(), to);
  return *made;
}

}  // namespace once
