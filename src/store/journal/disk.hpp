// What the journal needs of a file system, as a port: one folder with files in it. SystemDisk is the real one; tests
// and the simulator bring one that fails, tears and forgets. Every call blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::journal {

enum class DiskFault : std::uint8_t {
  no_space,  // the disk or a quota is full; it may have room again later
  in_use,    // lock(): another process has it
  failed,    // anything else; nothing is known of what was written
};

struct DiskError {
  DiskFault fault = DiskFault::failed;
  std::string detail;  // names the file and what the system said
};

template <class T>
using DiskResult = std::expected<T, DiskError>;

class File {
 public:
  virtual ~File() = default;

  // All of it or an error, after which any part of it may have been written.
  virtual DiskResult<void> write_at(std::uint64_t offset, std::string_view bytes) = 0;
  // Fewer bytes than asked for only at the end of the file.
  virtual DiskResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) = 0;
  // When it returns, what was written survives a loss of power. After an error nothing is known, and asking again
  // would lie: the system may have dropped what it could not write.
  virtual DiskResult<void> sync() = 0;
  virtual DiskResult<void> truncate(std::uint64_t size) = 0;
  virtual DiskResult<std::uint64_t> size() = 0;
};

enum class Access : std::uint8_t { read, write };

class Disk {
 public:
  virtual ~Disk() = default;

  // Keeps other processes out until this object ends; makes the folder if there is none.
  virtual DiskResult<void> lock() = 0;
  virtual DiskResult<std::vector<std::string>> list() = 0;
  // An empty file; whatever had the name is gone.
  virtual DiskResult<std::unique_ptr<File>> create(std::string_view name) = 0;
  virtual DiskResult<std::unique_ptr<File>> open(std::string_view name, Access access) = 0;
  virtual DiskResult<void> rename(std::string_view from, std::string_view to) = 0;
  // Done, too, when there is no such file.
  virtual DiskResult<void> remove(std::string_view name) = 0;
  // Makes what create, rename and remove did survive a loss of power. Needs the lock.
  virtual DiskResult<void> sync_names() = 0;

  // For messages: where this is.
  virtual std::string path_of(std::string_view name) const = 0;
};

}  // namespace once::journal
