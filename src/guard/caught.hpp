// Catches exceptions of the caller's code. The only place that catches everything, because user code can throw any
// type. pthread_exit() is not an exception and passes through.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "base/layers.hpp"

namespace once::guard {

enum class Ended : std::uint8_t { well, threw };

struct Thrown {
  std::exception_ptr exception;
  std::string what;  // of a std::exception, otherwise empty
};

Ended call_caught(void (*call)(void* state), void* state, Thrown& thrown);

template <class F>
Ended caught(F body, Thrown& thrown) {
  return call_caught([](void* state) { (*static_cast<F*>(state))(); }, &body, thrown);
}

// The same for callers that only need the text of the exception.
template <class F>
Ended caught(F body, std::string& what) {
  Thrown thrown;
  const Ended ended = caught(std::move(body), thrown);
  what = std::move(thrown.what);
  return ended;
}

}  // namespace once::guard
