#include "guard/caught.hpp"

#include <exception>
#include <new>

namespace once::guard {

namespace {

// Copying it may run out of memory, too.
void keep(std::string& what, const char* text) noexcept {
  try {
    what = text;
  } catch (const std::bad_alloc&) {
    what.clear();
  }
}

}  // namespace

Ended call_caught(void (*call)(void* state), void* state, std::string& what) noexcept {
  try {
    call(state);
    return Ended::well;
  } catch (const std::exception& error) {
    keep(what, error.what());
  } catch (...) {
    what.clear();
  }
  return Ended::threw;
}

}  // namespace once::guard
