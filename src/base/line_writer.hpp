// Writes lines on a separate thread, so that a full disk or a slow reader does not block the callers. Lines that do not
// fit into its buffer, or cannot be written, are dropped, counted and reported.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/log.hpp"

namespace once::base {

class LineWriter {
 public:
  // The most bytes that may be queued.
  static constexpr std::size_t most_waiting = std::size_t{8} << 20U;

  explicit LineWriter(const Log& log) : log_(log) {}
  ~LineWriter() { stop(Duration::zero()); }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Redirects lines to this file, which is appended to and created if absent; or, without a path, to standard output.
  // On an error, which the result describes, nothing changes. One thread at a time may call open() or reopen().
  std::expected<void, std::string> open(const std::string& path, LogFormat format);
  // Opens the file of the same name again: after log rotation, lines go to the new file.
  std::expected<void, std::string> reopen();
  // How lines should look: text or json.
  LogFormat format() const { return format_.load(std::memory_order_relaxed); }

  // Queues `count` whole lines, from any thread, without waiting for the output. Empties `lines`.
  void hand_over(std::string& lines, std::size_t count);
  std::uint64_t left_out() const { return left_out_.load(std::memory_order_relaxed); }

  // Writes the queued lines, waiting at most `patience` if the output is blocked, and ends. Nothing is written
  // afterwards.
  void stop(Duration patience);

 private:
  struct Batch {
    std::string lines;
    std::size_t count = 0;
  };
  struct Output {
    Descriptor file;
    int number = -1;     // of the file, or of standard output
    bool plain = false;  // see is_plain_file()
  };
  enum class Ready : std::uint8_t {
    yes,
    no,         // no, and the patience is used up
    elsewhere,  // another output was set
  };

  void run();
  bool wait_for_batches(std::vector<Batch>& batches);
  void write(const Batch& batch);
  // Returns errno; 0: everything was written.
  int write_all(std::string_view lines);
  Ready wait_until_ready();
  void take_up_next();
  void report_left_out(std::string_view why);
  void give_back(std::vector<Batch>& batches);

  const Log& log_;
  std::atomic<LogFormat> format_ = LogFormat::json;
  std::atomic<std::uint64_t> left_out_ = 0;
  std::mutex mutex_;
  std::condition_variable handed_over_;
  std::string path_;  // used by the opening thread only
  LogFormat wanted_format_ = LogFormat::automatic;
  // Used from the next batch on, or as soon as the current output blocks; number -1: no change.
  Output next_;
  std::vector<Batch> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::vector<std::string> spare_;  // buffers kept for reuse
  bool running_ = false;            // the thread was started
  bool stopping_ = false;
  std::atomic<std::chrono::nanoseconds> give_up_at_ = std::chrono::nanoseconds::max();
  // Used by the writing thread only.
  Output output_;
  bool torn_ = false;  // the last line was written in part
  std::uint64_t reported_left_out_ = 0;
  std::chrono::nanoseconds reported_at_{};
  std::thread thread_;
};

}  // namespace once::base
