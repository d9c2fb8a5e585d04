// Opens a journal: reads and verifies every segment, builds the index, and begins a new segment. Several threads read
// segments.
//
// Lock: the writer's, from the first segment to the last; the journal is not used before it is open. The threads that
// read take the locks of shards.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/core.hpp"
#include "store/journal/recovered_chunks.hpp"
#include "store/journal/scan.hpp"

namespace once::journal {

class Recovery {
 public:
  Recovery(Core& core, Appender& appender) : core_(core), appender_(appender) {}

  // `note` as for read_chain_to(). The error for a damaged journal says where.
  Result<void> run(Random& random, std::string_view note);

 private:
  Result<void> begin(Random& random, const Chain& chain, Fence last_fence, std::span<const std::string> doubtful,
                     std::span<RecoveredChunks> chunks);
  Result<void> put_aside(std::span<const std::string> obsolete);
  void append_again(std::span<const std::string> payloads, std::span<RecoveredChunks> chunks,
                    const SegmentHeader& header, std::string& segment);
  void cut(const SegmentFile& segment, std::uint64_t end);
  void forget_removed_and_count();
  Result<void> find_chunks(std::span<RecoveredChunks> recovered);

  Core& core_;
  Appender& appender_;
  Time opened_at_;
};

}  // namespace once::journal
