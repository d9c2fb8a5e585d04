#include "guard/caught.hpp"

#include <exception>
#include <new>

#include <cxxabi.h>

namespace once::guard {

namespace {

// Copying the text may also fail for lack of memory.
void keep(std::string& what, const char* text) noexcept {
  try {
    what = text;
  } catch (const std::bad_alloc&) {
    what.clear();
  }
}

}  // namespace

Ended call_caught(void (*call)(void* state), void* state, Thrown& thrown) {
  try {
    call(state);
    return Ended::well;
  } catch (const ::abi::__forced_unwind&) {
    throw;  // glibc aborts if this is swallowed
  } catch (const std::exception& error) {
    thrown.exception = std::current_exception();
    keep(thrown.what, error.what());
  } catch (...) {
    thrown.exception = std::current_exception();
    thrown.what.clear();
  }
  return Ended::threw;
}

}  // namespace once::guard
