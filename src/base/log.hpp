// Structured log lines: a message and named values, as text on a terminal and as JSON lines elsewhere. Constructors
// take a log; there is no global one. The error log goes to stderr, the access log is a second Log on stdout. Raw keys,
// secrets and bodies are never logged.
//
// Warnings and errors have a rate limit per message, so that a store that is down costs a few lines a second and not
// one per refused request. A separate line reports how many were dropped.
//
// The thread that logs a line writes it at once, so the last lines before an exit or a crash are not lost. It never
// waits for a hanging reader: lines that do not fit into the output are dropped, counted and reported.
#pragma once

#include <atomic>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.hpp"

namespace once::base {

enum class LogLevel : std::uint8_t { debug, info, warn, error, off };

enum class LogFormat : std::uint8_t {
  automatic,  // text when the output is a terminal, else JSON
  text,
  json,
};

// A name and a value, e.g. {"status", 200}. Borrows its strings: it lives as long as the call.
struct LogField {
  using Value = std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool>;

  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, const std::string& text) : name(field), value(std::string_view(text)) {}
  LogField(std::string_view field, std::same_as<bool> auto yes) : name(field), value(yes) {}
  LogField(std::string_view field, std::signed_integral auto number) : name(field), value(std::int64_t{number}) {}
  LogField(std::string_view field, std::unsigned_integral auto number)
    requires(!std::same_as<decltype(number), bool>)
      : name(field), value(std::uint64_t{number}) {}
  LogField(std::string_view field, std::floating_point auto number) : name(field), value(double{number}) {}

  std::string_view name;
  Value value;
};

// Any thread may log. A line is one write, so lines of several processes on one pipe do not mix either.
class Log {
 public:
  // Longer values are cut, so that no request can make a line of any size.
  static constexpr std::size_t max_value = 2048;
  // The limit for one message; applies to warnings and errors.
  static constexpr std::uint64_t lines_per_second = 10;

  Log(const Clock& clock, int descriptor, LogLevel level, LogFormat format);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool enabled(LogLevel level) const { return level >= level_.load(std::memory_order_relaxed); }
  void set_level(LogLevel level) { level_.store(level, std::memory_order_relaxed); }

  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    if (enabled(LogLevel::debug)) write(LogLevel::debug, message, fields);
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    if (enabled(LogLevel::info)) write(LogLevel::info, message, fields);
  }
  void warn(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    if (enabled(LogLevel::warn)) write_limited(LogLevel::warn, message, fields);
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    if (enabled(LogLevel::error)) write_limited(LogLevel::error, message, fields);
  }
  // Writes an info line at any log level, even off: for events that must leave a trace.
  void always(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::info, message, fields);
  }

  // Logs how many lines were dropped in past seconds. Every line does this for those before it; call it regularly so
  // that the last ones are reported too.
  void report_left_out() const { report_left_out(LeftOut::of_past_seconds); }

 private:
  enum class LeftOut : std::uint8_t { of_past_seconds, all };
  // Counts the lines of one message in the second that began at `since`.
  struct Repeated {
    std::string message;
    LogLevel level = LogLevel::error;
    Time since{};
    std::uint64_t lines = 0;
  };

  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const;
  void write_limited(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const;
  void report_left_out(LeftOut which) const;
  // Whether this line may be written.
  bool count(LogLevel level, std::string_view message) const;
  // Call these two with writing_ held; they return whether the line was written.
  bool put(std::string_view line) const;
  bool report_unwritten() const;

  const Clock& clock_;
  int descriptor_;
  std::atomic<LogLevel> level_;
  LogFormat format_;
  bool plain_;
  mutable std::mutex writing_;  // a line longer than a pipe's buffer is not atomic by itself
  mutable std::uint64_t unwritten_ = 0;
  mutable bool torn_ = false;  // the last line was written in part
  mutable std::mutex counting_;
  mutable std::vector<Repeated> repeated_;  // messages of the last second: program texts, so there are few
};

}  // namespace once::base
