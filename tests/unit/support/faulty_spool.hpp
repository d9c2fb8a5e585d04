// A spool in memory that executes at once, and whose disk fails when a test says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/spool/spool.hpp"

namespace once::sim {

class FaultySpool final : private SpoolDisk, private Offload {
 public:
  Spool spool{*this, *this};

  std::uint64_t calls = 0;     // to the disk
  std::uint64_t fails_at = 0;  // the number of the call; 0: none
  SpoolFault fails_with = SpoolFault::failed;
  std::size_t open = 0;  // files
  bool hangs = false;    // what is asked of it waits for go_on()

  void go_on() {
    hangs = false;
    for (OffloadJob* job : std::exchange(waiting_, {})) add(*job);
  }

 private:
  class File final : public SpoolFile {
   public:
    explicit File(FaultySpool& spool) : spool_(spool) { ++spool_.open; }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() override { --spool_.open; }

    SpoolResult<void> write_at(std::uint64_t offset, std::string_view bytes) override {
      if (spool_.fails()) return std::unexpected(spool_.error());
      bytes_.resize(std::max<std::size_t>(bytes_.size(), offset + bytes.size()));
      bytes_.replace(offset, bytes.size(), bytes);
      return {};
    }
    SpoolResult<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
      if (spool_.fails()) return std::unexpected(spool_.error());
      return bytes_.copy(into.data(), into.size(), offset);
    }

   private:
    FaultySpool& spool_;
    std::string bytes_;
  };

  SpoolResult<std::unique_ptr<SpoolFile>> create(const std::string& /*directory*/) override {
    if (fails()) return std::unexpected(error());
    return std::make_unique<File>(*this);
  }
  void add(OffloadJob& job) override {
    if (hangs) return waiting_.push_back(&job);
    job.execute();
    job.executed();
  }

  bool fails() { return ++calls == fails_at; }
  SpoolError error() const { return {.fault = fails_with, .detail = "the disk fails"}; }

  std::vector<OffloadJob*> waiting_;
};

}  // namespace once::sim
