// Disk space for request bodies that are too large for memory. The disk and the threads that use it are ports: files
// block, and an event loop must not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/executor.hpp"
#include "base/offload.hpp"

namespace once::gateway {

enum class SpoolFault : std::uint8_t {
  full,    // limits.max_spool, or the disk
  failed,  // anything else
};

struct SpoolError {
  SpoolFault fault = SpoolFault::failed;
  std::string detail;  // what the system said
};

template <class T>
using SpoolResult = std::expected<T, SpoolError>;

// A file without a name. Every call blocks, and so may its end.
class SpoolFile {
 public:
  virtual ~SpoolFile() = default;
  virtual SpoolResult<void> write_at(std::uint64_t offset, std::string_view bytes) = 0;
  // Fewer bytes than asked for only at the end of the file.
  virtual SpoolResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) = 0;
};

class SpoolDisk {
 public:
  virtual ~SpoolDisk() = default;
  // Blocks.
  virtual SpoolResult<std::unique_ptr<SpoolFile>> create(const std::string& directory) = 0;
};

// The files are gone when the process is, however it ends.
class SystemSpoolDisk final : public SpoolDisk {
 public:
  SpoolResult<std::unique_ptr<SpoolFile>> create(const std::string& directory) override;
};

// Shared by the workers; outlives their requests.
class Spool {
 public:
  Spool(SpoolDisk& disk, Offload& runner) : disk_(disk), runner_(runner) {}
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  SpoolDisk& disk() { return disk_; }
  template <class Act>
  OffloadCall<Act> call(Executor& home, Act act) {
    return OffloadCall<Act>(runner_, home, std::move(act));
  }

  // False: all files together would be larger than `most`.
  bool take(std::uint64_t bytes, std::uint64_t most);
  // Whether a body of this size would find room now.
  bool may_take(std::uint64_t bytes, std::uint64_t most) const;
  // The end of a file for which so many bytes were taken. Returns at once.
  void close(std::unique_ptr<SpoolFile> file, std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  // Since the start.
  void count_file() { files_.fetch_add(1, std::memory_order_relaxed); }
  void count_failure() { failures_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Close;

  SpoolDisk& disk_;
  Offload& runner_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::atomic<std::uint64_t> files_ = 0;
  std::atomic<std::uint64_t> failures_ = 0;
};

}  // namespace once::gateway
