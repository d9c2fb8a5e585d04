// Reads records from disk for a batch. Under the writer's lock an op only finds the address of its record (Reads). The
// disk is read without a lock (RecordReader), so that a cold or large record delays only its own callers. Then the op
// is executed again: if the record is still at the same address, the data is valid, because the data at an address
// never changes. If not, it is read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/frame_reader.hpp"
#include "store/journal/index.hpp"
#include "store/journal/past_runs.hpp"
#include "store/store.hpp"

namespace once::journal {

// Whether the op rewrites a record without having its labels. Owners of live claims repeat the labels; for other ops
// they are read from disk.
bool takes_labels(const Op& op);
// Whether the answer to a claim needs the outcome: not if the key has expired or was used for another request.
bool is_about_outcome(const Op& claim, const Record& record, Time now);

// The part of an operation that is in memory, and the place on disk of the rest, if any is needed. The record does not
// change while the writer's lock is held.
struct Indexed {
  const Record* record = nullptr;
  Place place{};
};
Indexed look_up(const Appender& writer, const Index& index, const Op& op);

// What an op needs from disk: its record if that is not in memory, and its labels if the op does not have them.
struct Read {
  Op* op = nullptr;
  Pinned from;
  std::optional<Record> record{};  // nullopt: see `error`
  bool needs_outcome = false;      // the part before the outcome is not enough
  bool lacks_outcome = false;      // only the part before the outcome was read
  std::uint32_t chunks = 0;        // its number of chunks when it was written, if its body is in them
  std::string tenant{};
  std::string route{};
  std::string error{};
  bool tried() const { return record.has_value() || !error.empty(); }
};

// The chunks for a read. The op is already decided: data at an address never changes, so its answer is that of the
// decision, whenever the chunks are read.
struct ChunkRead {
  Op* op = nullptr;
  std::vector<Pinned> from;
  std::optional<Address> unread{};  // the one that could not be read, see `error`
  std::string error{};
};

// Used by one thread, like the batch it belongs to.
struct Reads {
  std::vector<Read> done{};    // in the order of their ops
  std::vector<Read> wanted{};  // likewise
  std::size_t next = 0;        // index of the next one in `done`
  std::vector<ChunkRead> chunks{};

  // The data read for the op at this address, or null. Call it in the order of the ops.
  Read* of(const Op& op, Address address);
  void want(const Appender& writer, Op& op, Place place);
  void want_outcome(const Appender& writer, Op& op, Place place);
  // As many chunks as the op accepts, and at least one.
  void want_chunks(const Appender& writer, Op& op, std::span<const Place> places);
  void want_all(const Appender& writer, const Index& index, std::span<Op* const> ops);
};

// Lock: none. Thread-safe; waits for the disk.
class RecordReader {
 public:
  RecordReader(Disk& disk, const Clock& clock, const PastRuns& past_runs)
      : disk_(disk), clock_(clock), past_runs_(past_runs) {}

  // Moves everything from `wanted` to `done`.
  void read_all(Reads& reads) const;
  enum class ChunksRead : std::uint8_t { all, one_missing };
  // Reads them into the op. `one_missing`: one cannot be read where it was.
  ChunksRead read_chunks(ChunkRead& read) const;

 private:
  void read(Read& read, std::string& buffer) const;
  bool read_head(Read& read, FrameReader& reader) const;

  Disk& disk_;
  const Clock& clock_;
  const PastRuns& past_runs_;
};

}  // namespace once::journal
