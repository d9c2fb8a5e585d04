// Catches exceptions of the caller's code. The only place that catches everything, because user code can throw any
// type.
#pragma once

#include <cstdint>
#include <string>

#include "base/layers.hpp"

namespace once::guard {

enum class Ended : std::uint8_t { well, threw };

Ended call_caught(void (*call)(void* state), void* state, std::string& what) noexcept;

// `what` is what() of a std::exception, empty otherwise.
template <class F>
Ended caught(F body, std::string& what) noexcept {
  return call_caught([](void* state) { (*static_cast<F*>(state))(); }, &body, what);
}

}  // namespace once::guard
