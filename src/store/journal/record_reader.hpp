// Reading records back for a batch. Under the writer's lock an op only finds out where its record is (Reads); the disk
// is asked without any lock (RecordReader), so that a cold or large record keeps nobody waiting but its own callers.
// Then the op is executed anew: if the record is still at the same address it is what was read, because what is at an
// address never changes; if not, it is read again.
#pragma once

#include <cstddef>
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

// Whether the op writes labels that it does not say. The owner of a live claim says them again; those of the others are
// read back from where they were written last.
bool takes_labels(const Op& op);
// Whether what a claim is told depends on more than that the key was used for another request or has expired.
bool is_about_outcome(const Op& claim, const Record& record, Time now);

// What memory has of an operation, and where the rest is; no place: nothing else is needed. The record stays as it is
// while the writer's lock is held.
struct Indexed {
  const Record* record = nullptr;
  Place place{};
};
Indexed look_up(const Appender& writer, const Index& index, const Op& op);

// What an op needs of the disk: its record if that is not in memory, and its labels if it does not say them.
struct Read {
  Op* op = nullptr;
  Pinned from;
  std::optional<Record> record{};  // empty: see `error`
  bool needs_outcome = false;      // its head is not enough
  bool lacks_outcome = false;      // only its head was read
  std::string tenant{};
  std::string route{};
  std::string error{};
  bool tried() const { return record.has_value() || !error.empty(); }
};

// Of one thread, as the batch that it belongs to.
struct Reads {
  std::vector<Read> done{};    // in the order of their ops
  std::vector<Read> wanted{};  // the same
  std::size_t next = 0;        // of those that are done

  // What was read for the op at this address; null: nothing was. To be asked in the order of the ops.
  Read* of(const Op& op, Address address);
  void want(const Appender& writer, Op& op, Place place);
  void want_outcome(const Appender& writer, Op& op, Place place);
  // Of all that need something.
  void want_all(const Appender& writer, const Index& index, std::span<Op* const> ops);
};

// Lock: none. Any thread may read, and waits for the disk.
class RecordReader {
 public:
  RecordReader(Disk& disk, const Clock& clock, const PastRuns& past_runs)
      : disk_(disk), clock_(clock), past_runs_(past_runs) {}

  // What is wanted is done afterwards.
  void read_all(Reads& reads) const;

 private:
  void read(Read& read, std::string& buffer) const;
  bool read_head(Read& read, FrameReader& reader) const;

  Disk& disk_;
  const Clock& clock_;
  const PastRuns& past_runs_;
};

}  // namespace once::journal
