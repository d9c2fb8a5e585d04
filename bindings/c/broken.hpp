// The edge of the C interface: no exception leaves the library, and a broken invariant makes calls fail instead of
// ending the process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <once/once.h>

#include "guard/caught.hpp"

namespace once::abi {

class EventQueue;

// Whether an invariant was broken on any thread.
bool is_broken();
// Called by every open. The queue's waiting threads are woken when an invariant breaks.
void handle_broken_invariants(const std::shared_ptr<EventQueue>& queue);

// Keeps the text for once_last_error() of this thread.
once_status fail(once_status status, std::string_view text) noexcept;

// While it exists, this thread executes a call of the program.
class Inside {
 public:
  Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside();
};

once_status fail_thrown(const std::string& what) noexcept;
once_status fail_broken() noexcept;

// Every function of the interface runs its body through this.
template <class F>
once_status entered(F body) noexcept {
  if (is_broken()) return fail_broken();
  once_status status = ONCE_OK;
  guard::Thrown thrown;
  const Inside inside;
  if (guard::caught([&] { status = body(); }, thrown) == guard::Ended::threw) return fail_thrown(thrown.what);
  return status;
}

}  // namespace once::abi
