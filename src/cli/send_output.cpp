// Signals and output of `once send`.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <limits.h>
#include <poll.h>

#include "cli/send.hpp"
#include "core/reason.hpp"

namespace once::cli {

std::string system_error_text() {
  return std::generic_category().message(errno);
}

Interruption::Interruption() {
  ::sigemptyset(&signals_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a closed output is reported as a write error
  waiter_ = std::thread([this] {
    int signal = 0;
    while (::sigwait(&signals_, &signal) != 0) {
    }
    if (over_) return;
    signal_ = signal;
    stop_.request_stop();
  });
}

Interruption::~Interruption() {
  over_ = true;
  ::pthread_kill(waiter_.native_handle(), SIGHUP);  // no effect on a thread that has ended
  waiter_.join();
}

std::expected<SendOutput, std::string> SendOutput::open(const std::string& path) {
  Descriptor file(path.empty() ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!file.open()) return std::unexpected(fmt::format("cannot write {}: {}", path, system_error_text()));
  return SendOutput(std::move(file), !path.empty());
}

bool SendOutput::begin(const client::Answer& answer, bool include) const {
  struct stat status{};
  const bool plain = is_file_ && ::fstat(file_.get(), &status) == 0 && S_ISREG(status.st_mode);
  if (plain && ::ftruncate(file_.get(), 0) != 0) return false;
  if (!include) return true;
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", answer.status, reason_phrase(answer.status));
  for (const client::Header& header : answer.headers) head += fmt::format("{}: {}\r\n", header.name, header.value);
  head += "\r\n";
  return write_all(file_.get(), head);
}

std::size_t SendOutput::write(std::string_view bytes, const std::stop_token& stop) const {
  constexpr int poll_milliseconds = 100;  // how soon a stop is noticed while a pipe is blocked
  std::size_t written = 0;
  while (written < bytes.size() && !stop.stop_requested()) {
    pollfd ready{.fd = file_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&ready, 1, poll_milliseconds) == 0) continue;
    // A writable pipe accepts this much without blocking.
    const ssize_t size =
        ::write(file_.get(), bytes.data() + written, std::min<std::size_t>(bytes.size() - written, PIPE_BUF));
    if (size < 0 && errno != EINTR && errno != EAGAIN) return written;
    if (size > 0) written += static_cast<std::size_t>(size);
  }
  return written;
}

}  // namespace once::cli
