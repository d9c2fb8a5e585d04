// The audit log: a log line for every action of an operator on a key, done or refused, and the same in a separate file
// if configured. It fails closed: an action that cannot be written to the file is not done. So an action has two lines
// in the file, `begun` before it and its result after it; a refused one has only the second.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "admin/audit_thread.hpp"
#include "base/clock.hpp"
#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace once::admin {

struct AuditEntry {
  std::string action;     // release, resolve, forget
  std::string operation;  // 16 hex digits
  std::string by;
  std::string reason;
  std::string result;  // begun, done, refused, failed, unknown
  std::string from;    // the state before
  std::string to;      // the state after; empty: none
  std::string peer;
};

class Audit {
 public:
  // If writing a line takes longer than this, the file counts as unwritable.
  static constexpr Duration patience = std::chrono::seconds(5);
  // The limit of `by` and `reason` in bytes, in the log and the file.
  static constexpr std::size_t longest_word = 1000;

  // An empty path: no file.
  Audit(std::string path, const Clock& clock, const Log& log) : path_(std::move(path)), clock_(clock), log_(log) {}

  // At the start: checks that an existing path is a regular file, because a pipe or device could hang.
  Result<void> check() const;
  // Blocks until the line is on disk. Opens the file each time, so that it can be moved away at any time.
  Result<void> append(const AuditEntry& entry) const { return append_line(path_, line_of(entry)); }
  // co_await audit.write(entry, home): the same on a separate thread.
  AuditThread::Run write(const AuditEntry& entry, Executor& home) { return write({&entry, 1}, home); }
  // Writes all of these lines at once.
  AuditThread::Run write(std::span<const AuditEntry> entries, Executor& home);
  // Logged at any log level.
  void log(const AuditEntry& entry) const;

 private:
  std::string line_of(const AuditEntry& entry) const;
  static Result<void> append_line(const std::string& path, std::string line);

  const std::string path_;
  const Clock& clock_;
  const Log& log_;
  AuditThread thread_{patience};
};

}  // namespace once::admin
