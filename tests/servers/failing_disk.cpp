// Preloaded into a gateway, so that its disk fails: while the file ONCE_DISK_FAILS is there, nothing can be written or
// synced, as on a disk with an I/O error.
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace {

bool fails() {
  const char* const flag = std::getenv("ONCE_DISK_FAILS");
  if (flag == nullptr || ::access(flag, F_OK) != 0) return false;
  errno = EIO;
  return true;
}

}  // namespace

// These come before libc's functions of the same names.
extern "C" int failing_fdatasync(int file) __asm__("fdatasync");
extern "C" int failing_fsync(int file) __asm__("fsync");
extern "C" ssize_t failing_pwrite(int file, const void* bytes, std::size_t size, off_t at) __asm__("pwrite");
extern "C" ssize_t failing_pwrite64(int file, const void* bytes, std::size_t size, off_t at) __asm__("pwrite64");

extern "C" int failing_fdatasync(int file) {
  return fails() ? -1 : static_cast<int>(syscall(SYS_fdatasync, file));
}

extern "C" int failing_fsync(int file) {
  return fails() ? -1 : static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" ssize_t failing_pwrite(int file, const void* bytes, std::size_t size, off_t at) {
  return fails() ? -1 : syscall(SYS_pwrite64, file, bytes, size, at);
}

extern "C" ssize_t failing_pwrite64(int file, const void* bytes, std::size_t size, off_t at) {
  return failing_pwrite(file, bytes, size, at);
}
