#include "base/line_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <poll.h>

#include "base/ready_write.hpp"

namespace once::base {

namespace {

constexpr int look_again_milliseconds = 100;
constexpr std::chrono::nanoseconds report_every = std::chrono::seconds(1);
constexpr std::size_t most_spare = 16;

}  // namespace

std::expected<void, std::string> LineWriter::open(const std::string& path, LogFormat format) {
  Output output;
  if (path.empty()) {
    output.number = STDOUT_FILENO;
  } else {
    // O_NONBLOCK: a pipe without a reader is refused instead of waited for.
    output.file = Descriptor(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640));
    if (!output.file.open()) return std::unexpected(std::generic_category().message(errno));
    ::fcntl(output.file.get(), F_SETFL, O_APPEND);
    output.number = output.file.get();
  }
  output.plain = is_plain_file(output.number);
  const bool terminal = ::isatty(output.number) == 1;
  if (format == LogFormat::automatic) {
    format_.store(terminal ? LogFormat::text : LogFormat::json, std::memory_order_relaxed);
  } else {
    format_.store(format, std::memory_order_relaxed);
  }
  path_ = path;
  wanted_format_ = format;
  const std::scoped_lock lock(mutex_);
  next_ = std::move(output);
  if (running_ || stopping_) return {};
  thread_ = std::thread([this] { run(); });
  running_ = true;
  return {};
}

std::expected<void, std::string> LineWriter::reopen() {
  if (path_.empty()) return {};
  return open(path_, wanted_format_);
}

void LineWriter::hand_over(std::string& lines, std::size_t count) {
  if (lines.empty()) return;
  const std::size_t size = lines.size();
  {
    const std::scoped_lock lock(mutex_);
    if (running_ && !stopping_ && waiting_bytes_ + size <= most_waiting) {
      waiting_bytes_ += size;
      waiting_.push_back({.lines = std::move(lines), .count = count});
      lines.clear();
      if (!spare_.empty()) {
        lines.swap(spare_.back());
        spare_.pop_back();
      }
    } else {
      left_out_.fetch_add(count, std::memory_order_relaxed);
      lines.clear();
    }
  }
  handed_over_.notify_one();
}

void LineWriter::stop(Duration patience) {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    give_up_at_.store(monotonic_now() + patience, std::memory_order_relaxed);
  }
  handed_over_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void LineWriter::run() {
  std::vector<Batch> batches;
  while (wait_for_batches(batches)) {
    for (const Batch& batch : batches) write(batch);
    give_back(batches);
  }
  report_left_out("the process ended");
}

bool LineWriter::wait_for_batches(std::vector<Batch>& batches) {
  std::unique_lock lock(mutex_);
  handed_over_.wait(lock, [this] { return !waiting_.empty() || stopping_; });
  batches.swap(waiting_);
  take_up_next();
  return !batches.empty();
}

// Call with the mutex held.
void LineWriter::take_up_next() {
  if (next_.number < 0) return;
  output_ = std::exchange(next_, Output());
  torn_ = false;
}

void LineWriter::give_back(std::vector<Batch>& batches) {
  const std::scoped_lock lock(mutex_);
  for (Batch& batch : batches) {
    waiting_bytes_ -= batch.lines.size();
    batch.lines.clear();
    if (spare_.size() < most_spare) spare_.push_back(std::move(batch.lines));
  }
  batches.clear();
}

void LineWriter::write(const Batch& batch) {
  const int error = write_all(batch.lines);
  if (error != 0) left_out_.fetch_add(batch.count, std::memory_order_relaxed);
  const bool due = monotonic_now() - reported_at_ >= report_every;
  if (error != 0 && due) report_left_out(std::generic_category().message(error));
  if (error == 0 && due) report_left_out("lines arrived faster than they could be written");
}

int LineWriter::write_all(std::string_view lines) {
  // If a line can be written only in part, its rest is abandoned and the next line starts on a new one.
  bool ends_torn = torn_;
  while (!lines.empty()) {
    const Ready ready = wait_until_ready();
    if (ready == Ready::no) return ETIMEDOUT;
    if (ready == Ready::elsewhere) {
      if (torn_ && !ends_torn) {  // its beginning went to an output that is no longer read
        lines.remove_prefix(lines.find('\n') + 1);
        left_out_.fetch_add(1, std::memory_order_relaxed);
      }
      ends_torn = false;
      const std::scoped_lock lock(mutex_);
      take_up_next();
      continue;
    }
    const std::string_view piece = ends_torn ? "\n" : next_piece(lines, output_.plain);
    const ssize_t written = write_if_ready(output_.number, piece, output_.plain);
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    torn_ = piece[static_cast<std::size_t>(written) - 1] != '\n';
    if (!std::exchange(ends_torn, false)) lines.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

// Waits for a slow reader without a limit, except while stopping, and gives up on it once another output is set.
LineWriter::Ready LineWriter::wait_until_ready() {
  if (output_.plain) return Ready::yes;
  pollfd ready{.fd = output_.number, .events = POLLOUT, .revents = 0};
  while (true) {
    const auto now = monotonic_now();
    const bool last = now >= give_up_at_.load(std::memory_order_relaxed);
    if (::poll(&ready, 1, last ? 0 : look_again_milliseconds) != 0) return Ready::yes;
    {
      const std::scoped_lock lock(mutex_);
      if (next_.number >= 0) return Ready::elsewhere;
    }
    if (last) return Ready::no;
    if (now - reported_at_ >= report_every) report_left_out("the reader of the access log is too slow");
  }
}

void LineWriter::report_left_out(std::string_view why) {
  const std::uint64_t all = left_out_.load(std::memory_order_relaxed);
  if (all == reported_left_out_) return;
  log_.warn("access log lines left out", {{"count", all - reported_left_out_}, {"why", why}});
  reported_left_out_ = all;
  reported_at_ = monotonic_now();
}

}  // namespace once::base
