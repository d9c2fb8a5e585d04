// Preloaded into a gateway or a server, so that its wall clock is off: by ONCE_CLOCK_SKEW_MS, or by what stands at the
// moment in the file ONCE_CLOCK_SKEW_FILE, as 8 bytes in the machine's order. The clock that timers run by stays.
// libfaketime does the same, but not in a process with AddressSanitizer or ThreadSanitizer.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr long nanoseconds = 1'000'000'000;
std::int64_t fixed_ms = 0;
const volatile std::int64_t* skew_ms = &fixed_ms;

__attribute__((constructor)) void read_skew() {
  if (const char* text = std::getenv("ONCE_CLOCK_SKEW_MS")) fixed_ms = std::strtol(text, nullptr, 10);
  const char* const path = std::getenv("ONCE_CLOCK_SKEW_FILE");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped != MAP_FAILED) skew_ms = static_cast<const volatile std::int64_t*>(mapped);
}

int skewed(clockid_t clock, timespec* at) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, at));
  if (result == 0 && clock == CLOCK_REALTIME) {
    const std::int64_t skew = *skew_ms;
    const long sum = at->tv_nsec + (skew % 1000) * (nanoseconds / 1000) + nanoseconds;  // never below zero
    at->tv_sec += skew / 1000 + sum / nanoseconds - 1;
    at->tv_nsec = sum % nanoseconds;
  }
  return result;
}

}  // namespace

// These come before libc's functions of the same names.
extern "C" int skewed_clock(clockid_t clock, timespec* at) noexcept __asm__("clock_gettime");
extern "C" int skewed_timeofday(timeval* at, void* zone) noexcept __asm__("gettimeofday");
extern "C" time_t skewed_time(time_t* at) noexcept __asm__("time");

extern "C" int skewed_clock(clockid_t clock, timespec* at) noexcept {
  return skewed(clock, at);
}

extern "C" int skewed_timeofday(timeval* at, void* /*zone*/) noexcept {
  timespec now{};
  const int result = skewed(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return result;
}

extern "C" time_t skewed_time(time_t* at) noexcept {
  timespec now{};
  skewed(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}
