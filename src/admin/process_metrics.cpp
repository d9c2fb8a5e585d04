#include "admin/process_metrics.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "admin/exposition.hpp"

namespace once::admin {

namespace {

// The second number is the resident pages.
std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t open_descriptors(std::uint64_t limit) {
  std::error_code error;
  const std::filesystem::directory_iterator all("/proc/self/fd", error);
  // No descriptor is left to read the folder: all are in use.
  if (error) return limit;
  // One of the entries is the descriptor of the folder itself.
  return static_cast<std::uint64_t>(std::distance(begin(all), end(all))) - 1;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

void write_process_metrics(Exposition& out, Time started_at) {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  rlimit descriptors{};
  ::getrlimit(RLIMIT_NOFILE, &descriptors);
  out.family("process_cpu_seconds_total", "counter", "User and system CPU time.");
  out.sample("", seconds(used.ru_utime) + seconds(used.ru_stime));
  out.family("process_start_time_seconds", "gauge", "Start time of the process, in seconds since 1970.");
  out.sample("", std::chrono::duration<double>(started_at.time_since_epoch()).count());
  out.single("process_resident_memory_bytes", "gauge", "Memory in use.", resident_bytes());
  out.single("process_open_fds", "gauge", "Open file descriptors.", open_descriptors(descriptors.rlim_cur));
  out.single("process_max_fds", "gauge", "Limit of open file descriptors.", descriptors.rlim_cur);
}

}  // namespace once::admin
