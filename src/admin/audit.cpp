#include "admin/audit.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "core/json_text.hpp"

namespace once::admin {

namespace {

// Cuts long texts for a log line, not inside a character.
std::string_view cut(std::string_view words) {
  if (words.size() <= Audit::longest_word) return words;
  std::size_t end = Audit::longest_word;
  while (end > Audit::longest_word - 3 && (static_cast<unsigned char>(words[end]) & 0xC0U) == 0x80U) --end;
  return words.substr(0, end);
}

void append_member(std::string& out, std::string_view name, std::string_view value) {
  if (out.size() > 1) out.push_back(',');
  append_json_string(out, name);
  out.push_back(':');
  append_json_string(out, cut(value));
}

std::unexpected<Error> cannot(std::string_view what, std::string_view why) {
  return std::unexpected(Error{.source = ErrorSource::system,
                               .retryable = Retryable::yes,
                               .detail = fmt::format("the audit log cannot be {}: {}", what, why)});
}

std::unexpected<Error> cannot(std::string_view what, int number) {
  return cannot(what, std::string_view(std::strerror(number)));
}

// A line cut off by a full disk or a crash: the next line must not be appended to it.
bool ends_within_a_line(int file, off_t size) {
  char last = '\n';
  return size > 0 && ::pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

// A new file survives a power loss only if its folder is synced too.
Result<void> keep_name(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  const Descriptor directory(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open()) return cannot("written", errno);
  if (::fsync(directory.get()) != 0 && errno != EINVAL && errno != EROFS) return cannot("written", errno);
  return {};
}

}  // namespace

void Audit::log(const AuditEntry& entry) const {
  log_.always("audit", {{"action", entry.action},
                        {"operation", cut(entry.operation)},
                        {"by", cut(entry.by)},
                        {"reason", cut(entry.reason)},
                        {"result", entry.result},
                        {"from", entry.from},
                        {"to", entry.to},
                        {"peer", entry.peer}});
}

Result<void> Audit::check() const {
  struct stat found{};
  if (path_.empty() || ::stat(path_.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return {};
  return std::unexpected(Error{.source = ErrorSource::config,
                               .retryable = Retryable::no,
                               .detail = fmt::format("audit_log: {} is not a regular file", path_)});
}

AuditThread::Run Audit::write(std::span<const AuditEntry> entries, Executor& home) {
  std::string lines;
  for (const AuditEntry& entry : entries) lines.append(line_of(entry));
  return thread_.run([path = path_, lines = std::move(lines)] { return append_line(path, lines); }, home);
}

std::string Audit::line_of(const AuditEntry& entry) const {
  std::string line = "{";
  append_member(line, "time", rfc3339(clock_.now()));
  append_member(line, "action", entry.action);
  append_member(line, "operation", entry.operation);
  append_member(line, "by", entry.by);
  append_member(line, "reason", entry.reason);
  append_member(line, "result", entry.result);
  append_member(line, "from", entry.from);
  append_member(line, "to", entry.to);
  append_member(line, "peer", entry.peer);
  line.append("}\n");
  return line;
}

Result<void> Audit::append_line(const std::string& path, std::string line) {
  if (path.empty()) return {};
  // Non-blocking: if a pipe has replaced the file, opening it would wait for a reader.
  const Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  if (file.get() < 0) return cannot("opened", errno);
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return cannot("opened", errno);
  if (!S_ISREG(found.st_mode)) return cannot("opened", "it is not a regular file");
  if (ends_within_a_line(file.get(), found.st_size)) line.insert(0, 1, '\n');
  if (!write_all(file.get(), line)) return cannot("written", errno);
  if (::fdatasync(file.get()) != 0 && errno != EINVAL && errno != EROFS) return cannot("written", errno);
  return found.st_size == 0 ? keep_name(path) : Result<void>();
}

}  // namespace once::admin
