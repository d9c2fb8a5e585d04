// Disk space for request bodies that are too large for memory. Disk and threads are ports, because file access blocks
// and an event loop must not.
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
#include "base/reserved.hpp"

namespace once::gateway {

enum class SpoolFault : std::uint8_t {
  full,    // limits.max_spool is reached, or the disk is full
  failed,  // anything else
};

struct SpoolError {
  SpoolFault fault = SpoolFault::failed;
  std::string detail;  // the system's error message
};

template <class T>
using SpoolResult = std::expected<T, SpoolError>;

// An unnamed file. Every call may block, the destructor too.
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

// The files disappear with the process, however it ends.
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

  // Reserves space, unless all files together would then exceed `most`.
  Reserved take(std::uint64_t bytes, std::uint64_t most);
  // Whether a body of this size would fit now.
  bool may_take(std::uint64_t bytes, std::uint64_t most) const;
  // Closes a file and gives back the `bytes` reserved for it. Returns at once.
  void close(std::unique_ptr<SpoolFile> file, std::uint64_t bytes);

  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t files() const { return files_.load(std::memory_order_relaxed); }
  std::uint64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  // Totals since the start.
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
