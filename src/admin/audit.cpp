#include "admin/audit.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "core/json_text.hpp"

namespace once {

namespace {

// People's words may be long; a line is not.
constexpr std::size_t longest_word = 1000;

void append_member(std::string& out, std::string_view name, std::string_view value) {
  if (out.size() > 1) out.push_back(',');
  append_json_string(out, name);
  out.push_back(':');
  append_json_string(out, value.substr(0, longest_word));
}

std::unexpected<Error> cannot(std::string_view what, int number) {
  return std::unexpected(Error{.source = ErrorSource::system,
                               .retryable = Retryable::yes,
                               .detail = fmt::format("the audit log cannot be {}: {}", what, std::strerror(number))});
}

}  // namespace

std::string time_text(Time time) {
  const auto since = time.time_since_epoch().count();
  const std::time_t seconds = static_cast<std::time_t>(since / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), since % 1000);
}

void Audit::log(const AuditEntry& entry) const {
  log_.info("audit", {{"action", entry.action},
                      {"operation", entry.operation},
                      {"by", entry.by},
                      {"reason", entry.reason},
                      {"result", entry.result},
                      {"from", entry.from},
                      {"to", entry.to},
                      {"peer", entry.peer}});
}

Result<void> Audit::append(const AuditEntry& entry) const {
  if (path_.empty()) return {};
  std::string line = "{";
  append_member(line, "time", time_text(clock_.now()));
  append_member(line, "action", entry.action);
  append_member(line, "operation", entry.operation);
  append_member(line, "by", entry.by);
  append_member(line, "reason", entry.reason);
  append_member(line, "result", entry.result);
  append_member(line, "from", entry.from);
  append_member(line, "to", entry.to);
  append_member(line, "peer", entry.peer);
  line.append("}\n");
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0) return cannot("opened", errno);
  const ssize_t written = ::write(file.get(), line.data(), line.size());
  if (written < 0) return cannot("written", errno);
  if (static_cast<std::size_t>(written) != line.size()) return cannot("written", ENOSPC);
  if (::fdatasync(file.get()) != 0 && errno != EINVAL && errno != EROFS) return cannot("written", errno);
  return {};
}

}  // namespace once
