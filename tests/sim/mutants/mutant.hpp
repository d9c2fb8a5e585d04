// The switch of the mutants in tests/sim/mutants/: the copies of the sources that they are applied to are compiled with
// this header, and nothing else is.
#pragma once

#include <string_view>

namespace once::base {

inline std::string_view active_mutant;  // set before anything runs; empty: none

inline bool mutant(std::string_view name) {
  return active_mutant == name;
}

}  // namespace once::base
