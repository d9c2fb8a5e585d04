// Shared by the parts of `once send`: options and exit codes, ending on a signal, and where the response goes.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <expected>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"
#include "once/client.hpp"

namespace once::cli {

namespace send_exit {

inline constexpr int well = 0;
inline constexpr int failed = 1;
inline constexpr int wrong_usage = 2;
inline constexpr int redirected = 3;
inline constexpr int refused = 4;
inline constexpr int server_failed = 5;
inline constexpr int not_sent = 6;
inline constexpr int not_known = 7;
inline constexpr int executed_again = 8;
inline constexpr int by_signal = 128;

}  // namespace send_exit

struct SendOptions {
  std::string method;
  std::string url;
  std::string data;
  std::vector<std::string> headers;
  std::string key;
  std::string key_file;
  std::string key_header = "Idempotency-Key";
  std::string deadline = "2m";
  std::string timeout = "30s";
  unsigned retries = 8;
  bool retry_500 = false;
  std::string ca_file;
  bool include = false;
  std::string output;
  bool quiet = false;
  bool stream = false;
  bool stop = false;
  bool stop_on_interrupt = false;
};

// Turns the signals that end a command into a stop request. The thread that waits for them ends with it.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  int signal() const { return signal_; }

 private:
  sigset_t signals_{};
  std::stop_source stop_;
  std::atomic<bool> over_ = false;
  std::atomic<int> signal_ = 0;
  std::thread waiter_;
};

// Opened before anything is sent, so that no answer is lost because its file cannot be written.
class SendOutput {
 public:
  static std::expected<SendOutput, std::string> open(const std::string& path);

  // Empties a file, and writes the head if requested.
  bool begin(const client::Answer& answer, bool include) const;
  // Returns the number of bytes written. If not all were: a stop was requested, or errno has the reason.
  std::size_t write(std::string_view bytes, const std::stop_token& stop) const;

 private:
  SendOutput(Descriptor file, bool is_file) : file_(std::move(file)), is_file_(is_file) {}

  Descriptor file_;
  bool is_file_;
};

// One operation as described by the options.
struct Sending {
  const SendOptions& options;
  client::Request request;
  Client client;
};

std::string system_error_text();
client::Watcher send_progress(const SendOptions& options);
int send_code_of_status(int status);
bool is_too_large(const client::Result& result);
int send_exit_code(const client::Result& result);
void warn_if_unprotected(const SendOptions& options, const client::Answer& answer);
// Says why there is no answer, and how to continue.
void explain_no_answer(const SendOptions& options, const client::Result& result);

int send_stream(const Sending& sending, const SendOutput& output);
int send_stop(const Sending& sending);

}  // namespace once::cli
