// Preloaded into a gateway, so that its wall clock is off by ONCE_CLOCK_SKEW_MS. The clock that timers run by stays.
// libfaketime does the same, but not in a process with AddressSanitizer or ThreadSanitizer.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

constexpr long nanoseconds = 1'000'000'000;
long skew_ms = 0;

__attribute__((constructor)) void read_skew() {
  if (const char* text = std::getenv("ONCE_CLOCK_SKEW_MS")) skew_ms = std::strtol(text, nullptr, 10);
}

}  // namespace

// Comes before libc's function of that name.
extern "C" int skewed_clock(clockid_t clock, timespec* at) noexcept __asm__("clock_gettime");

extern "C" int skewed_clock(clockid_t clock, timespec* at) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, at));
  if (result == 0 && clock == CLOCK_REALTIME) {
    const long sum = at->tv_nsec + (skew_ms % 1000) * (nanoseconds / 1000) + nanoseconds;  // never below zero
    at->tv_sec += skew_ms / 1000 + sum / nanoseconds - 1;
    at->tv_nsec = sum % nanoseconds;
  }
  return result;
}
