// What a piece of work costs: time on the clock, CPU time of all threads of the process, and memory.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "base/clock.hpp"

namespace once::bench {

// A benchmark that met an error has nothing to report.
[[noreturn]] inline void give_up(std::string_view why) {
  fmt::print(stderr, "journal_bench: {}\n", why);
  std::_Exit(1);
}

struct Spent {
  double cpu_us = 0;
  double wall_us = 0;

  Spent per(std::uint64_t requests) const {
    const auto count = static_cast<double>(requests);
    return {.cpu_us = cpu_us / count, .wall_us = wall_us / count};
  }
};

class Stopwatch {
 public:
  Spent spent() const {
    const double wall = std::chrono::duration<double, std::micro>(monotonic_now() - begun_at_).count();
    return {.cpu_us = cpu_us() - cpu_us_, .wall_us = wall};
  }

 private:
  static double cpu_us() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto us = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    return us(usage.ru_utime) + us(usage.ru_stime);
  }

  std::chrono::nanoseconds begun_at_ = monotonic_now();
  double cpu_us_ = cpu_us();
};

// Memory of this process alone: what it has of files, such as its code, does not count.
inline std::uint64_t own_memory() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!(statm >> total >> resident >> shared)) give_up("cannot read /proc/self/statm");
  return (resident - shared) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// What `work` returns, done in a process of its own: what it measures does not depend on what was done before. No other
// thread may run.
auto in_child(auto&& work) {
  using Value = decltype(work());
  static_assert(std::is_trivially_copyable_v<Value>);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) give_up("no pipe");
  const pid_t child = ::fork();
  if (child < 0) give_up("cannot fork");
  if (child == 0) {
    const Value value = work();
    const bool told = ::write(ends[1], &value, sizeof value) == sizeof value;
    std::_Exit(told ? 0 : 1);
  }
  Value value{};
  ::close(ends[1]);
  const bool heard = ::read(ends[0], &value, sizeof value) == sizeof value;
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (!heard) give_up("a part of the benchmark ended early");
  return value;
}

}  // namespace once::bench
