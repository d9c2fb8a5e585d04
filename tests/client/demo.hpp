// `once demo` as a process: the real gateway in front of a payments API that fails in the ways real ones do. It ends
// with the test, whatever happens to that.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::client {

class Demo {
 public:
  Demo() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
    process_ = ::fork();
    if (process_ == 0) become_demo(ends[1]);
    ::close(ends[1]);
    std::string text;
    char letter = 0;
    while (!text.contains("Ctrl-C") && ::read(ends[0], &letter, 1) == 1) text += letter;
    output_ = ends[0];  // kept open: the demo may write more
    const std::size_t at = text.find("Once http://");
    if (at == std::string::npos) throw std::runtime_error("the demo did not start: " + text);
    const std::size_t begin = at + std::string_view("Once ").size();
    url_ = text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  ~Demo() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    ::close(output_);
  }
  Demo(const Demo&) = delete;
  Demo& operator=(const Demo&) = delete;

  // "?mode=slow" and so on.
  std::string payments(const std::string& query = "") const { return url_ + "/payments" + query; }

 private:
  [[noreturn]] void become_demo(int output) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(output, STDOUT_FILENO);
    if (::chdir(folder_.path().c_str()) != 0) ::_exit(127);
    ::execl(ONCE_BINARY, ONCE_BINARY, "demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--threads", "1",
            "--store", "memory:", nullptr);
    ::_exit(127);
  }

  TemporaryFolder folder_;
  pid_t process_ = -1;
  int output_ = -1;
  std::string url_;
};

}  // namespace once::client
