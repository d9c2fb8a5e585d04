#include "gateway/spool/spool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/descriptor.hpp"

namespace once::gateway {

namespace {

SpoolError spool_error(std::string_view what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {.fault = full ? SpoolFault::full : SpoolFault::failed,
          .detail = fmt::format("{}: {}", what, std::generic_category().message(error))};
}

class SystemSpoolFile final : public SpoolFile {
 public:
  explicit SystemSpoolFile(Descriptor file) : file_(std::move(file)) {}

  SpoolResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return std::unexpected(spool_error("write", written < 0 ? errno : ENOSPC));
      bytes.remove_prefix(static_cast<std::size_t>(written));
      offset += static_cast<std::uint64_t>(written);
    }
    return {};
  }

  SpoolResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    std::size_t got = 0;
    while (got < into.size()) {
      const std::span<char> rest = into.subspan(got);
      const ssize_t read = ::pread(file_.get(), rest.data(), rest.size(), static_cast<off_t>(offset + got));
      if (read < 0 && errno == EINTR) continue;
      if (read < 0) return std::unexpected(spool_error("read", errno));
      if (read == 0) break;
      got += static_cast<std::size_t>(read);
    }
    return got;
  }

 private:
  Descriptor file_;
};

// For file systems without O_TMPFILE.
Descriptor create_unlinked(const std::string& directory) {
  std::string path = directory + "/once-spool-XXXXXX";
  Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
  if (file.open()) ::unlink(path.c_str());
  return file;
}

}  // namespace

SpoolResult<std::unique_ptr<SpoolFile>> SystemSpoolDisk::create(const std::string& directory) {
  constexpr mode_t owner_only = 0600;
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, owner_only));
  const bool unsupported = !file.open() && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
  if (unsupported) file = create_unlinked(directory);
  if (!file.open()) return std::unexpected(spool_error(directory, errno));
  return std::make_unique<SystemSpoolFile>(std::move(file));
}

// Deletes itself once executed.
struct Spool::Close final : OffloadJob {
  Close(Spool& of, std::unique_ptr<SpoolFile> closed, std::uint64_t taken)
      : spool(of), file(std::move(closed)), bytes(taken) {}

  void execute() override {
    file.reset();
    const std::uint64_t before = spool.bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    ONCE_ASSERT(before >= bytes);
  }
  void executed() override { const std::shared_ptr<Close> last = std::move(self); }

  Spool& spool;
  std::unique_ptr<SpoolFile> file;
  std::uint64_t bytes;
  std::shared_ptr<Close> self;
};

Reserved Spool::take(std::uint64_t bytes, std::uint64_t most) {
  const std::uint64_t before = bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (before <= most && bytes <= most - before) return Reserved::yes;
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  return Reserved::no;
}

bool Spool::may_take(std::uint64_t bytes, std::uint64_t most) const {
  const std::uint64_t taken = this->bytes();
  return taken <= most && bytes <= most - taken;
}

void Spool::close(std::unique_ptr<SpoolFile> file, std::uint64_t bytes) {
  if (!file && bytes == 0) return;
  const auto job = std::make_shared<Close>(*this, std::move(file), bytes);
  job->self = job;
  runner_.add(*job);
}

}  // namespace once::gateway
