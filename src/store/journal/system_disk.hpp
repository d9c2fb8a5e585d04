// A folder of the system's file system. Once it is locked, names are resolved in the locked folder, even if that is
// moved and another folder takes its place.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "store/journal/disk.hpp"

namespace once::journal {

class SystemDisk final : public Disk {
 public:
  explicit SystemDisk(std::string folder) : folder_(std::move(folder)) {}

  DiskResult<void> lock() override;
  DiskResult<void> lock_to_read() override;
  // Notes are stored in the lock file, replacing the process id.
  DiskResult<void> leave_note(std::string_view note) override;
  std::string note() override;
  DiskResult<std::vector<std::string>> list() override;
  DiskResult<std::unique_ptr<File>> create(std::string_view name) override;
  DiskResult<std::unique_ptr<File>> open(std::string_view name, Access access) override;
  DiskResult<void> rename(std::string_view from, std::string_view to) override;
  DiskResult<void> remove(std::string_view name) override;
  DiskResult<void> sync_names() override;
  std::string path_of(std::string_view name) const override;

 private:
  // How to open a name: the folder and the name in it or, before the lock, the whole path.
  struct Named {
    int folder;
    std::string name;
  };
  Named named(std::string_view name) const;
  DiskResult<std::unique_ptr<File>> opened(std::string_view name, int flags) const;
  DiskError in_use();

  std::string folder_;
  Descriptor lock_;
  Descriptor names_;  // also locked, because the lock file can be deleted
};

}  // namespace once::journal
