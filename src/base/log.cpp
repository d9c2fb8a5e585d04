#include "base/log.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <exception>
#include <iterator>

#include <fmt/format.h>

#include "base/log_line.hpp"
#include "base/ready_write.hpp"

namespace once::base {

namespace {

using Buffer = fmt::memory_buffer;

void append(Buffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return "debug";
    case LogLevel::info: return "info";
    case LogLevel::warn: return "warn";
    case LogLevel::error: return "error";
    case LogLevel::off: return "off";
  }
  return "";
}

// 2026-11-15T03:20:22.123Z. The part up to the second is kept per thread: it changes once in thousands of lines.
void append_time(Buffer& out, Time now) {
  thread_local std::chrono::sys_seconds known = std::chrono::sys_seconds::min();
  thread_local std::array<char, 32> text{};
  thread_local std::size_t length = 0;
  const auto second = std::chrono::floor<std::chrono::seconds>(now);
  if (second != known) {
    const auto day = std::chrono::floor<std::chrono::days>(second);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(second - day);
    const auto result = fmt::format_to_n(text.data(), text.size(), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.",
                                         static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                                         static_cast<unsigned>(date.day()), time.hours().count(),
                                         time.minutes().count(), time.seconds().count());
    length = result.size;
    known = second;
  }
  append(out, {text.data(), length});
  fmt::format_to(std::back_inserter(out), "{:03}Z", (now - second).count());
}

bool continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// The length of the valid UTF-8 sequence that `text` begins with; 0 if it does not begin with one.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!continuation(text[i])) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) > 0x9F;
  const bool too_large = first == 0xF4 && byte(1) > 0x8F;
  return overlong || surrogate || too_large ? 0 : length;
}

bool plain(char c) {
  return c >= ' ' && c < 0x7F && c != '"' && c != '\\';
}

// Sequences that a terminal may act on: control characters beyond ASCII, and marks that change the text direction.
bool obeyed_by_terminals(std::string_view sequence) {
  return (sequence.size() == 2 && sequence[0] == '\xC2' && static_cast<unsigned char>(sequence[1]) < 0xA0) ||
         (sequence.starts_with("\xE2\x80") && (sequence[2] >= '\xA8' && sequence[2] <= '\xAE')) ||
         (sequence.starts_with("\xE2\x81") && (sequence[2] >= '\xA6' && sequence[2] <= '\xA9'));
}

enum class Escapes : std::uint8_t { json, text };

void append_ascii_escape(Buffer& out, char c, Escapes escapes) {
  switch (c) {
    case '"': return append(out, "\\\"");
    case '\\': return append(out, "\\\\");
    case '\n': return append(out, "\\n");
    case '\r': return append(out, "\\r");
    case '\t': return append(out, "\\t");
  }
  const unsigned value = static_cast<unsigned char>(c);
  if (escapes == Escapes::json) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", value);
  } else {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", value);
  }
}

void append_escaped(Buffer& out, std::string_view value, Escapes escapes) {
  const bool cut = value.size() > Log::max_value;
  if (cut) {
    std::size_t end = Log::max_value;
    while (end > Log::max_value - 3 && continuation(value[end])) --end;
    value = value.substr(0, end);
  }
  while (!value.empty()) {
    std::size_t run = 0;
    while (run < value.size() && plain(value[run])) ++run;
    append(out, value.substr(0, run));
    value.remove_prefix(run);
    if (value.empty()) break;
    const std::size_t length = utf8_sequence(value);
    const std::string_view sequence = value.substr(0, length == 0 ? 1 : length);
    if (length == 1) {
      append_ascii_escape(out, sequence[0], escapes);
    } else if (length == 0 && escapes == Escapes::json) {
      append(out, "\\ufffd");
    } else if (length == 0 || (escapes == Escapes::text && obeyed_by_terminals(sequence))) {
      for (const char c : sequence) append_ascii_escape(out, c, escapes);
    } else {
      append(out, sequence);
    }
    value.remove_prefix(sequence.size());
  }
  if (cut) append(out, "…");
}

bool needs_quotes(std::string_view value) {
  for (const char c : value) {
    if (!plain(c) || c == ' ' || c == '=') return true;
  }
  return value.empty();
}

// Appends everything but strings, in the same form for both formats. JSON has no NaN and no infinity.
struct AppendNumber {
  Buffer& out;

  void operator()(std::string_view) const {}
  void operator()(std::int64_t value) const { append(out, fmt::format_int(value)); }
  void operator()(std::uint64_t value) const { append(out, fmt::format_int(value)); }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      fmt::format_to(std::back_inserter(out), "{}", value);
    } else {
      append(out, "null");
    }
  }
  void operator()(bool value) const { append(out, value ? "true" : "false"); }

 private:
  static void append(Buffer& to, const fmt::format_int& digits) { base::append(to, {digits.data(), digits.size()}); }
  static void append(Buffer& to, std::string_view text) { base::append(to, text); }
};

void append_quoted(Buffer& out, std::string_view value, Escapes escapes) {
  out.push_back('"');
  append_escaped(out, value, escapes);
  out.push_back('"');
}

void append_json(Buffer& out, Time now, LogLevel level, std::string_view message,
                 std::initializer_list<LogField> fields) {
  append(out, R"({"time":")");
  append_time(out, now);
  append(out, R"(","level":")");
  append(out, name_of(level));
  append(out, R"(","message":)");
  append_quoted(out, message, Escapes::json);
  for (const LogField& field : fields) {
    out.push_back(',');
    append_quoted(out, field.name, Escapes::json);
    out.push_back(':');
    if (const auto* text = std::get_if<std::string_view>(&field.value)) {
      append_quoted(out, *text, Escapes::json);
    } else {
      std::visit(AppendNumber(out), field.value);
    }
  }
  append(out, "}\n");
}

void append_text(Buffer& out, Time now, LogLevel level, std::string_view message,
                 std::initializer_list<LogField> fields) {
  append_time(out, now);
  fmt::format_to(std::back_inserter(out), " {:<5} ", name_of(level));
  append_escaped(out, message, Escapes::text);
  for (const LogField& field : fields) {
    out.push_back(' ');
    append_escaped(out, field.name, Escapes::text);
    out.push_back('=');
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (text == nullptr) {
      std::visit(AppendNumber(out), field.value);
    } else if (needs_quotes(*text)) {
      append_quoted(out, *text, Escapes::text);
    } else {
      append_escaped(out, *text, Escapes::text);
    }
  }
  out.push_back('\n');
}

LogFormat format_for(int descriptor, LogFormat format) {
  if (format != LogFormat::automatic) return format;
  return ::isatty(descriptor) == 1 ? LogFormat::text : LogFormat::json;
}

}  // namespace

Log::Log(const Clock& clock, int descriptor, LogLevel level, LogFormat format)
    : clock_(clock),
      descriptor_(descriptor),
      level_(level),
      format_(format_for(descriptor, format)),
      plain_(is_plain_file(descriptor)) {}

Log::~Log() {
  try {
    report_left_out(LeftOut::all);
  } catch (const std::exception&) {
    return;  // no memory to write the line
  }
}

std::string_view log_line(LogFormat format, Time now, LogLevel level, std::string_view message,
                          std::initializer_list<LogField> fields) {
  thread_local Buffer line;
  line.clear();
  if (format == LogFormat::json) {
    append_json(line, now, level, message, fields);
  } else {
    append_text(line, now, level, message, fields);
  }
  return {line.data(), line.size()};
}

void Log::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const {
  const std::scoped_lock lock(writing_);
  if (!report_unwritten() || !put(log_line(format_, clock_.now(), level, message, fields))) ++unwritten_;
}

bool Log::report_unwritten() const {
  if (unwritten_ == 0) return true;
  if (!put(log_line(format_, clock_.now(), LogLevel::warn, "log lines left out", {{"count", unwritten_}})))
    return false;
  unwritten_ = 0;
  return true;
}

bool Log::put(std::string_view line) const {
  while (torn_) {
    const ssize_t written = write_if_ready(descriptor_, "\n", plain_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    torn_ = false;
  }
  while (!line.empty()) {
    const ssize_t written = write_if_ready(descriptor_, next_piece(line, plain_), plain_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    line.remove_prefix(static_cast<std::size_t>(written));
    torn_ = !line.empty();
  }
  return true;
}

void Log::write_limited(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) const {
  report_left_out(LeftOut::of_past_seconds);
  if (count(level, message)) write(level, message, fields);
}

bool Log::count(LogLevel level, std::string_view message) const {
  const std::scoped_lock lock(counting_);
  auto found = std::ranges::find(repeated_, message, &Repeated::message);
  if (found == repeated_.end()) {
    repeated_.push_back({.message = std::string(message), .level = level, .since = clock_.now()});
    found = std::prev(repeated_.end());
  }
  return ++found->lines <= lines_per_second;
}

void Log::report_left_out(LeftOut which) const {
  {
    const std::scoped_lock lock(writing_);
    report_unwritten();
  }
  std::vector<Repeated> passed;
  {
    const std::scoped_lock lock(counting_);
    if (repeated_.empty()) return;
    const Time now = clock_.now();
    // A clock that was set back also ends the second.
    const auto has_passed = [&](const Repeated& each) {
      return which == LeftOut::all || now < each.since || now >= each.since + std::chrono::seconds(1);
    };
    const auto ended = std::ranges::partition(repeated_, [&](const Repeated& each) { return !has_passed(each); });
    std::ranges::move(ended, std::back_inserter(passed));
    repeated_.erase(ended.begin(), ended.end());
  }
  for (const Repeated& each : passed) {
    if (each.lines <= lines_per_second) continue;
    write(each.level, "lines left out", {{"of", each.message}, {"count", each.lines - lines_per_second}});
  }
}

}  // namespace once::base
