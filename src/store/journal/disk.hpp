// The file system as a port: one folder with files in it. SystemDisk is the production class; tests and the simulator
// have one that fails, tears writes and loses data. Every call blocks.
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
  failed,    // anything else; it is unknown what was written
};

struct DiskError {
  DiskFault fault = DiskFault::failed;
  std::string detail;  // names the file, with the system's message
};

template <class T>
using DiskResult = std::expected<T, DiskError>;

class File {
 public:
  virtual ~File() = default;

  // Writes everything. After an error, any part of it may have been written.
  virtual DiskResult<void> write_at(std::uint64_t offset, std::string_view bytes) = 0;
  // Fewer bytes than asked for only at the end of the file.
  virtual DiskResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) = 0;
  // On success, everything written survives a power loss. After an error nothing is known, and repeating the call
  // proves nothing: the system may have dropped the data that it could not write.
  virtual DiskResult<void> sync() = 0;
  virtual DiskResult<void> truncate(std::uint64_t size) = 0;
  virtual DiskResult<std::uint64_t> size() = 0;
};

enum class Access : std::uint8_t { read, write };

class Disk {
 public:
  virtual ~Disk() = default;

  // Locks out other processes until this object is destroyed. Creates the folder if necessary.
  virtual DiskResult<void> lock() = 0;
  // The same without writing anything, for read-only use.
  virtual DiskResult<void> lock_to_read() { return lock(); }
  // Stores a note until the next lock(); it is on disk when this returns. A disk without notes returns an empty one.
  virtual DiskResult<void> leave_note(std::string_view /*note*/) { return {}; }
  virtual std::string note() { return {}; }
  virtual DiskResult<std::vector<std::string>> list() = 0;
  // Creates an empty file, replacing one of the same name.
  virtual DiskResult<std::unique_ptr<File>> create(std::string_view name) = 0;
  virtual DiskResult<std::unique_ptr<File>> open(std::string_view name, Access access) = 0;
  virtual DiskResult<void> rename(std::string_view from, std::string_view to) = 0;
  // Succeeds also if there is no such file.
  virtual DiskResult<void> remove(std::string_view name) = 0;
  // Makes earlier create, rename and remove calls survive a power loss. Needs the lock.
  virtual DiskResult<void> sync_names() = 0;

  // The full path, for messages.
  virtual std::string path_of(std::string_view name) const = 0;
};

}  // namespace once::journal
