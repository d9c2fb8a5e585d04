// Preloaded into a gateway or a server, so that its wall clock is off: by ONCE_CLOCK_SKEW_MS, or by what stands at the
// moment in the file ONCE_CLOCK_SKEW_FILE, as 8 bytes in the machine's order. The clock that timers run by stays,
// unless ONCE_CLOCK_SKEW_TIMERS is set: then timeouts of epoll and of condition variables follow the moved clock, too.
// libfaketime does the same, but not in a process with AddressSanitizer or ThreadSanitizer.
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include <dlfcn.h>

namespace {

constexpr long nanoseconds = 1'000'000'000;
std::int64_t fixed_ms = 0;
const volatile std::int64_t* skew_ms = &fixed_ms;
bool moves_timers = false;
constexpr int look_every_ms = 10;  // a wait that is longer ends early, and its caller looks at the moved clock

using EpollWait = int (*)(int, epoll_event*, int, int);
using ConditionWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);

template <typename Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

__attribute__((constructor)) void read_skew() {
  moves_timers = std::getenv("ONCE_CLOCK_SKEW_TIMERS") != nullptr;
  if (const char* text = std::getenv("ONCE_CLOCK_SKEW_MS")) fixed_ms = std::strtol(text, nullptr, 10);
  const char* const path = std::getenv("ONCE_CLOCK_SKEW_FILE");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const mapped = ::mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped != MAP_FAILED) skew_ms = static_cast<const volatile std::int64_t*>(mapped);
}

timespec moved(timespec at, std::int64_t by_ms) {
  const long sum = at.tv_nsec + (by_ms % 1000) * (nanoseconds / 1000) + nanoseconds;  // never below zero
  return {.tv_sec = at.tv_sec + by_ms / 1000 + sum / nanoseconds - 1, .tv_nsec = sum % nanoseconds};
}

bool earlier(timespec one, timespec other) {
  return one.tv_sec != other.tv_sec ? one.tv_sec < other.tv_sec : one.tv_nsec < other.tv_nsec;
}

int skewed(clockid_t clock, timespec* at) noexcept {
  const auto result = static_cast<int>(syscall(SYS_clock_gettime, clock, at));
  if (result == 0 && (clock == CLOCK_REALTIME || (clock == CLOCK_MONOTONIC && moves_timers)))
    *at = moved(*at, *skew_ms);
  return result;
}

}  // namespace

// These come before libc's functions of the same names.
extern "C" int skewed_clock(clockid_t clock, timespec* at) noexcept __asm__("clock_gettime");
extern "C" int skewed_timeofday(timeval* at, void* zone) noexcept __asm__("gettimeofday");
extern "C" time_t skewed_time(time_t* at) noexcept __asm__("time");
extern "C" int skewed_epoll(int epoll, epoll_event* events, int most, int timeout) __asm__("epoll_wait");
extern "C" int skewed_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                const timespec* until) __asm__("pthread_cond_clockwait");

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

extern "C" int skewed_epoll(int epoll, epoll_event* events, int most, int timeout) {
  static const auto next = next_of<EpollWait>("epoll_wait");
  return next(epoll, events, most, moves_timers ? std::min(timeout, look_every_ms) : timeout);
}

extern "C" int skewed_condition(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                const timespec* until) {
  static const auto next = next_of<ConditionWait>("pthread_cond_clockwait");
  if (!moves_timers || clock != CLOCK_MONOTONIC) return next(condition, mutex, clock, until);
  timespec now{};
  syscall(SYS_clock_gettime, clock, &now);
  const timespec due = moved(*until, -*skew_ms);
  const timespec soon = moved(now, look_every_ms);
  if (!earlier(soon, due)) return next(condition, mutex, clock, &due);
  const int result = next(condition, mutex, clock, &soon);
  return result == ETIMEDOUT ? 0 : result;  // woken for nothing, as a condition variable may be
}
