// A folder of the machine's file system.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "store/journal/disk.hpp"

namespace once {

class SystemDisk final : public Disk {
 public:
  explicit SystemDisk(std::string folder) : folder_(std::move(folder)) {}

  DiskResult<void> lock() override;
  DiskResult<std::vector<std::string>> list() override;
  DiskResult<std::unique_ptr<File>> create(std::string_view name) override;
  DiskResult<std::unique_ptr<File>> open(std::string_view name, Access access) override;
  DiskResult<void> rename(std::string_view from, std::string_view to) override;
  DiskResult<void> remove(std::string_view name) override;
  DiskResult<void> sync_names() override;
  std::string path_of(std::string_view name) const override;

 private:
  std::string folder_;
  Descriptor lock_;
  Descriptor names_;  // the folder itself
};

}  // namespace once
