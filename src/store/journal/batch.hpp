// The ops of one write: each is decided in order, what they change is gathered, and all of it is written with one sync.
// The index follows only after that, so nothing is told that is not on disk.
//
// Lock: the writer's. A Batch is made from the Appender and must not outlive the lock.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/core.hpp"
#include "store/journal/record_reader.hpp"
#include "store/store.hpp"

namespace once::journal {

class Batch {
 public:
  Batch(Core& core, Appender& appender, Reads& reads, Time now)
      : core_(core), appender_(appender), reads_(reads), now_(now) {}

  // In order, up to the first one that needs something to be read; returns how many.
  std::size_t execute(std::span<Op* const> ops);

 private:
  // What there is of an operation.
  struct Found {
    const Record* record = nullptr;  // null: none, or a forgotten one; an expired one is a tombstone
    Labels labels;                   // those of the op, or else, if it writes the record again, of the record
  };
  // Empty: it is wanted, or could not be read and the op is answered.
  std::optional<Found> find_record(Op& op);
  // The same, of a record that is not whole in memory.
  bool take_what_was_read(Op& op, Place place, Found& found);

  void decide(Op& op);
  void claim(Op& op, const Record* found);
  void renew_lease(Op& op, const Found& found);
  void finish_claim(Op& op, const Found& found);
  void release_claim(Op& op, const Found& found);
  void forget_record(Op& op, const Record* found);

  void commit();
  void apply(Appender::Change& change);

  Core& core_;
  Appender& appender_;
  Reads& reads_;
  const Time now_;
  Record read_record_;
};

}  // namespace once::journal
