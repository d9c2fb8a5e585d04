#include "store/journal/system_disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <dirent.h>
#include <fmt/format.h>

namespace once::journal {

namespace {

constexpr mode_t only_ours = S_IRUSR | S_IWUSR;
constexpr std::string_view lock_name = "lock";

std::unexpected<DiskError> failure(std::string_view what, std::string_view path, int error) {
  // Running out of descriptors also counts as full, because other files may be closed.
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EMFILE || error == ENFILE;
  return std::unexpected(
      DiskError{.fault = full ? DiskFault::no_space : DiskFault::failed,
                .detail = fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(error))});
}

// Repeats a call that a signal interrupted.
auto uninterrupted(auto&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// If root repairs or verifies a journal, its files must stay readable for the service's user.
void give_to_owner_of(int folder, int file) {
  struct stat owner{};
  if (::geteuid() != 0 || ::fstat(folder, &owner) != 0 || owner.st_uid == 0) return;
  [[maybe_unused]] const int given = ::fchown(file, owner.st_uid, owner.st_gid);
}

class SystemFile final : public File {
 public:
  SystemFile(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  DiskResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = uninterrupted(
          [&] { return ::pwrite(descriptor_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
      if (written < 0) return failure("write", path_, errno);
      if (written == 0) return failure("write", path_, ENOSPC);
      bytes.remove_prefix(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
    return {};
  }

  DiskResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    std::size_t size = 0;
    while (size < into.size()) {
      const ssize_t got = uninterrupted([&] {
        return ::pread(descriptor_.get(), into.data() + size, into.size() - size, static_cast<off_t>(offset + size));
      });
      if (got < 0) return failure("read", path_, errno);
      if (got == 0) break;
      size += static_cast<std::size_t>(got);
    }
    return size;
  }

  DiskResult<void> sync() override {
    if (uninterrupted([&] { return ::fdatasync(descriptor_.get()); }) != 0) return failure("sync", path_, errno);
    return {};
  }

  DiskResult<void> truncate(std::uint64_t size) override {
    const int cut = uninterrupted([&] { return ::ftruncate(descriptor_.get(), static_cast<off_t>(size)); });
    if (cut != 0) return failure("truncate", path_, errno);
    return {};
  }

  DiskResult<std::uint64_t> size() override {
    struct stat status{};
    if (::fstat(descriptor_.get(), &status) != 0) return failure("look at", path_, errno);
    return static_cast<std::uint64_t>(status.st_size);
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

Descriptor open_folder(const std::string& folder) {
  return Descriptor(uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
}

DiskResult<void> make_folder(const std::string& folder) {
  const std::filesystem::path path(folder);
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error) return failure("make", path.parent_path().string(), error.value());
  if (::mkdir(folder.c_str(), S_IRWXU) != 0) {
    if (errno == EEXIST) return {};
    return failure("make", folder, errno);
  }
  // A journal whose folder is lost in a power loss is lost too.
  const std::string parent = path.has_parent_path() ? path.parent_path().string() : ".";
  const Descriptor descriptor = open_folder(parent);
  if (!descriptor.open() || ::fsync(descriptor.get()) != 0) return failure("sync", parent, errno);
  return {};
}

}  // namespace

std::string SystemDisk::path_of(std::string_view name) const {
  return fmt::format("{}/{}", folder_, name);
}

SystemDisk::Named SystemDisk::named(std::string_view name) const {
  if (!names_.open()) return {.folder = AT_FDCWD, .name = path_of(name)};
  return {.folder = names_.get(), .name = std::string(name)};
}

DiskResult<std::unique_ptr<File>> SystemDisk::opened(std::string_view name, int flags) const {
  const Named at = named(name);
  Descriptor file(uninterrupted([&] { return ::openat(at.folder, at.name.c_str(), flags | O_CLOEXEC, only_ours); }));
  if (!file.open()) return failure("open", path_of(name), errno);
  if ((flags & O_CREAT) != 0) give_to_owner_of(at.folder, file.get());
  return std::make_unique<SystemFile>(std::move(file), path_of(name));
}

std::string SystemDisk::note() {
  std::array<char, 128> text{};
  const Descriptor file(uninterrupted([&] { return ::open(path_of(lock_name).c_str(), O_RDONLY | O_CLOEXEC); }));
  const ssize_t size = file.open() ? ::pread(file.get(), text.data(), text.size(), 0) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

DiskResult<void> SystemDisk::leave_note(std::string_view note) {
  const auto size = static_cast<ssize_t>(note.size());
  const bool left = ::ftruncate(lock_.get(), 0) == 0 && ::pwrite(lock_.get(), note.data(), note.size(), 0) == size &&
                    ::fsync(lock_.get()) == 0;
  if (!left) return failure("write", path_of(lock_name), errno);
  return {};
}

DiskError SystemDisk::in_use() {
  const std::string pid = note();
  const bool known = !pid.empty() && std::ranges::all_of(pid, [](char each) { return each >= '0' && each <= '9'; });
  return {.fault = DiskFault::in_use,
          .detail =
              fmt::format("the journal in {} is in use by {}", folder_, known ? "process " + pid : "another process")};
}

// Locks the folder and a file in it. The folder, because the file can be deleted while the journal is open and the next
// process would make another one. The file, because it shows the owner.
DiskResult<void> SystemDisk::lock() {
  if (auto made = make_folder(folder_); !made) return made;
  Descriptor names = open_folder(folder_);
  if (!names.open()) return failure("open", folder_, errno);
  // Some network file systems cannot lock a folder; the file must suffice there.
  if (::flock(names.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::unexpected(in_use());
  const std::string path = path_of(lock_name);
  Descriptor file(
      uninterrupted([&] { return ::openat(names.get(), lock_name.data(), O_RDWR | O_CREAT | O_CLOEXEC, only_ours); }));
  if (!file.open()) return failure("open", path, errno);
  give_to_owner_of(names.get(), file.get());
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failure("lock", path, errno);
    return std::unexpected(in_use());
  }
  // The process id is informative, and a full disk may prevent writing it. The lock is the kernel's and ends with the
  // process.
  const std::string pid = std::to_string(::getpid());
  [[maybe_unused]] const bool written =
      ::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), pid.data(), pid.size(), 0) >= 0;
  // Kept open: syncing the name of a new segment needs a descriptor.
  names_ = std::move(names);
  lock_ = std::move(file);
  return {};
}

// On a read-only file system the lock file may not exist, and cannot be created.
DiskResult<void> SystemDisk::lock_to_read() {
  Descriptor names = open_folder(folder_);
  if (!names.open()) return failure("open", folder_, errno);
  Descriptor file(uninterrupted([&] { return ::openat(names.get(), lock_name.data(), O_RDONLY | O_CLOEXEC); }));
  for (const Descriptor* each : {&names, &file}) {
    const bool taken = each->open() && ::flock(each->get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (taken) return std::unexpected(in_use());
  }
  names_ = std::move(names);
  lock_ = std::move(file);
  return {};
}

DiskResult<std::vector<std::string>> SystemDisk::list() {
  const Named at = named(".");
  const int folder = ::openat(at.folder, at.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, decltype([](DIR* each) { ::closedir(each); })> entries(folder < 0 ? nullptr
                                                                                               : ::fdopendir(folder));
  if (entries == nullptr) return failure("list", folder_, errno);
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return failure("list", folder_, errno);
  return names;
}

DiskResult<std::unique_ptr<File>> SystemDisk::create(std::string_view name) {
  return opened(name, O_RDWR | O_CREAT | O_TRUNC);
}

DiskResult<std::unique_ptr<File>> SystemDisk::open(std::string_view name, Access access) {
  return opened(name, access == Access::read ? O_RDONLY : O_RDWR);
}

DiskResult<void> SystemDisk::rename(std::string_view from, std::string_view to) {
  const Named old_name = named(from);
  const Named new_name = named(to);
  if (::renameat(old_name.folder, old_name.name.c_str(), new_name.folder, new_name.name.c_str()) != 0) {
    return failure("rename", path_of(from), errno);
  }
  return {};
}

DiskResult<void> SystemDisk::remove(std::string_view name) {
  const Named at = named(name);
  if (::unlinkat(at.folder, at.name.c_str(), 0) != 0 && errno != ENOENT) return failure("remove", path_of(name), errno);
  return {};
}

DiskResult<void> SystemDisk::sync_names() {
  if (::fsync(names_.get()) != 0) return failure("sync", folder_, errno);
  return {};
}

}  // namespace once::journal
