// The border of the library: no exception leaves it, and a broken invariant ends what it is asked, not the process.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <once/once.h>

#include "guard/caught.hpp"

namespace once::abi {

class EventQueue;

// An invariant was broken, on whichever thread.
bool is_broken();
// From the first open on. The queue is woken when something breaks.
void handle_broken_invariants(const std::shared_ptr<EventQueue>& queue);

// Keeps the text for once_last_error() of this thread.
once_status fail(once_status status, std::string_view text) noexcept;

// A call of the program is inside of the library, on this thread.
class Inside {
 public:
  Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside();
};

once_status fail_thrown(const std::string& what) noexcept;
once_status fail_broken() noexcept;

// Every function of the interface is the body of one of these.
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
