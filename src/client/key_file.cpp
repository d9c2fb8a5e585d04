#include "client/key_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/descriptor.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "client/operation.hpp"
#include "core/key.hpp"

namespace once::client {

namespace {

constexpr std::string_view first_line = "once-key 1";
constexpr std::size_t longest_file = 4096;

std::unexpected<std::string> failure(std::string_view what, std::string_view path) {
  return std::unexpected(fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(errno)));
}

// The rest of the line after its name; nullopt if the line has another name.
std::optional<std::string_view> field(std::string_view line, std::string_view name) {
  if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') return std::nullopt;
  return line.substr(name.size() + 1);
}

}  // namespace

std::string request_digest(const Request& request) {
  Sha256 hash;
  hash.update_part(request.method);
  hash.update_part(request.url);
  hash.update_part(request.body);
  const Digest digest = hash.digest();
  return to_hex({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string format_key_record(const KeyRecord& record) {
  return fmt::format("{}\nkey {}\nrequest {}\ncreated {}\nstate {}\n", first_line, record.key, record.request,
                     record.created.time_since_epoch().count(),
                     record.state == KeyRecord::State::done ? "done" : "pending");
}

std::expected<KeyRecord, std::string> parse_key_record(std::string_view text) {
  const auto lines = split(text, '\n');
  if (lines.size() != 6 || lines[0] != first_line || !lines[5].empty()) return std::unexpected("it is not a key file");
  const auto key = field(lines[1], "key");
  const auto request = field(lines[2], "request");
  const auto created = field(lines[3], "created");
  const auto state = field(lines[4], "state");
  const auto milliseconds = created ? parse_number(*created) : std::nullopt;
  const bool well = key && request && milliseconds && state && parse_key(*key, longest_key) &&
                    (*state == "pending" || *state == "done") && from_hex(*request);
  if (!well) return std::unexpected("it is damaged");
  return KeyRecord{.key = std::string(*key),
                   .request = std::string(*request),
                   .created = Time(Duration(static_cast<Duration::rep>(*milliseconds))),
                   .state = *state == "done" ? KeyRecord::State::done : KeyRecord::State::pending};
}

std::expected<KeyRecord, std::string> KeyFile::open(const KeyRecord& fresh) {
  if (::access(path_.c_str(), F_OK) == 0) return read();
  const auto beside = write_beside(fresh);
  if (!beside) return std::unexpected(beside.error());
  const bool named = ::link(beside->c_str(), path_.c_str()) == 0;
  const int error = errno;
  if (named) step("named");
  ::unlink(beside->c_str());
  errno = error;
  if (!named && error != EEXIST) return failure("make", path_);
  if (auto synced = sync_folder(); !synced) return std::unexpected(synced.error());
  step("folder synced");
  if (named) return fresh;
  return read();  // another process was faster: use its key
}

std::expected<KeyRecord, std::string> KeyFile::read() {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open() && errno == ENOENT) return std::unexpected(fmt::format("there is no key file {}", path_));
  if (!file.open()) return failure("open", path_);
  std::array<char, longest_file> buffer{};
  const ssize_t size = ::read(file.get(), buffer.data(), buffer.size());
  if (size < 0) return failure("read", path_);
  auto record = parse_key_record({buffer.data(), static_cast<std::size_t>(size)});
  if (!record) return std::unexpected(fmt::format("cannot use {}: {}", path_, record.error()));
  // The process that linked the file may have died before syncing the folder.
  if (auto synced = sync_folder(); !synced) return std::unexpected(synced.error());
  return record;
}

std::expected<std::string, std::string> KeyFile::write_beside(const KeyRecord& record) {
  std::string path = path_ + ".XXXXXX";
  const Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.open()) return failure("make a file beside", path_);
  step("made");
  if (!write_all(file.get(), format_key_record(record))) {
    auto failed = failure("write", path);
    ::unlink(path.c_str());
    return failed;
  }
  step("written");
  if (::fsync(file.get()) != 0) {
    auto failed = failure("sync", path);
    ::unlink(path.c_str());
    return failed;
  }
  step("synced");
  return path;
}

std::expected<void, std::string> KeyFile::sync_folder() {
  const std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.open() || ::fsync(descriptor.get()) != 0) return failure("sync", folder);
  return {};
}

std::expected<void, std::string> KeyFile::mark_done(KeyRecord record) {
  record.state = KeyRecord::State::done;
  const auto beside = write_beside(record);
  if (!beside) return std::unexpected(beside.error());
  if (::rename(beside->c_str(), path_.c_str()) != 0) {
    auto failed = failure("rename", *beside);
    ::unlink(beside->c_str());
    return failed;
  }
  step("renamed");
  return sync_folder();
}

std::expected<void, std::string> KeyFile::remove() {
  if (::unlink(path_.c_str()) != 0) return failure("remove", path_);
  step("removed");
  return sync_folder();
}

}  // namespace once::client
