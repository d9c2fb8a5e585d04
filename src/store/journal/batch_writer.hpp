// Executes batches of ops: makes space, decides and writes (Batch), and reads records that are not in memory
// (RecordReader).
//
// Lock: execute() takes the writer's lock, so one batch writes at a time. It releases it to read records, and to wait
// for the upkeep. Any thread may call it.
#pragma once

#include <span>
#include <vector>

#include "base/synchronized.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/core.hpp"
#include "store/journal/record_reader.hpp"
#include "store/store.hpp"

namespace once::journal {

class BatchWriter {
 public:
  explicit BatchWriter(Core& core) : core_(core), reader_(core.disk, core.clock, core.past_runs) {}

  void execute(std::span<Op* const> batch);

 private:
  // Decides all ops; only chunks remain to be read.
  void decide(std::span<Op* const> batch, Reads& reads);
  void read_chunks(std::vector<ChunkRead> wanted);
  // Executes ops in order, up to the first one that has to read from disk; returns that one and the rest.
  std::span<Op* const> execute_locked(std::span<Op* const> batch, Reads& reads, Locked<Appender>& appender);

  Core& core_;
  const RecordReader reader_;
};

}  // namespace once::journal
