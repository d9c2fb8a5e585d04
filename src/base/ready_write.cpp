#include "base/ready_write.hpp"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include <limits.h>
#include <poll.h>

namespace once::base {

bool is_plain_file(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
}

std::string_view next_piece(std::string_view lines, bool plain) {
  if (plain || lines.size() <= PIPE_BUF) return lines;
  const std::size_t fits = lines.rfind('\n', PIPE_BUF - 1);
  return lines.substr(0, fits != std::string_view::npos ? fits + 1 : PIPE_BUF);
}

ssize_t write_if_ready(int descriptor, std::string_view piece, bool plain) {
  if (plain) return ::write(descriptor, piece.data(), piece.size());
  pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
  const int found = ::poll(&ready, 1, 0);
  if (found == 0) errno = EAGAIN;
  if (found <= 0) return -1;
  // Another writer of the same pipe may have used the room since the poll.
  const iovec part{.iov_base = const_cast<char*>(piece.data()), .iov_len = piece.size()};
  const ssize_t written = ::pwritev2(descriptor, &part, 1, -1, RWF_NOWAIT);
  if (written >= 0 || errno == EAGAIN || errno == EINTR) return written;
  // The call failed. If RWF_NOWAIT is not supported (an older kernel, a terminal, a filter of system calls), write()
  // works; any other error occurs again.
  return ::write(descriptor, piece.data(), piece.size());
}

}  // namespace once::base
