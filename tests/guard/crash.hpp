// A process that is killed in the middle of its work.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <stdexcept>

namespace once::guard {

// `body` runs in a process of its own and is given what it calls in the middle of its work; there it is killed. The
// caller has no threads yet.
inline void killed_in(const std::function<void(const std::function<void()>& now)>& body) {
  std::array<int, 2> ready{};
  if (::pipe(ready.data()) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    ::close(ready[0]);
    body([&] {
      if (::write(ready[1], "x", 1) != 1) std::_Exit(3);
      while (true) ::pause();
    });
    std::_Exit(2);  // it was not called: the parent sees the end of the pipe
  }
  ::close(ready[1]);
  char seen = 0;
  const bool at_work = ::read(ready[0], &seen, 1) == 1;
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  if (!at_work) throw std::runtime_error("the work was not called");
}

}  // namespace once::guard
