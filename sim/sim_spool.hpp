// The spool of a simulated gateway: files in memory, and jobs that take virtual time. Some calls fail, as on a disk
// that is full or broken.
#pragma once

#include <cstdint>
#include <map>

#include "gateway/spool/spool.hpp"
#include "sim/world.hpp"

namespace once::sim {

class SimSpool final : public SpoolDisk, public Offload {
 public:
  // `faults` percent of the calls fail.
  SimSpool(World& world, unsigned faults) : world_(world), faults_(faults) {}
  SimSpool(const SimSpool&) = delete;
  SimSpool& operator=(const SimSpool&) = delete;

  SpoolResult<std::unique_ptr<SpoolFile>> create(const std::string& directory) override;
  void add(OffloadJob& job) override;

  // Ends all faults.
  void heal() { faults_ = 0; }
  // The process ends: executes every job at once.
  void cut_off();
  std::uint64_t open_files() const { return open_files_; }

 private:
  class OpenFile;

  static void execute(OffloadJob& job);
  bool fails() { return faults_ > 0 && !over_ && world_.draw.percent(faults_); }
  SpoolError draw_error();

  World& world_;
  unsigned faults_;
  bool over_ = false;
  std::uint64_t added_ = 0;
  std::uint64_t open_files_ = 0;
  std::map<std::uint64_t, OffloadJob*> waiting_;
};

}  // namespace once::sim
