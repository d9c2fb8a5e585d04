// The ops of one write: each is decided in order, their changes are collected and written with one sync. The index is
// updated only after that, so that nothing is reported that is not on disk.
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

  // Executes ops in order, up to the first one that has to read from disk; returns how many.
  std::size_t execute(std::span<Op* const> ops);

 private:
  // The current record of an operation.
  struct Found {
    const Record* record = nullptr;  // null: none, or a forgotten one; an expired one is a tombstone
    Labels labels;                   // those of the op, or of the record if the op rewrites it without labels
  };
  // nullopt: the record must be read, or could not be read and the op is answered.
  std::optional<Found> find_record(Op& op);
  // The same for a record that is not completely in memory.
  bool take_read_record(Op& op, Place place, Found& found);

  void decide(Op& op);
  void claim(Op& op, const Record* found);
  void renew_lease(Op& op, const Found& found);
  void finish_claim(Op& op, const Found& found);
  void release_claim(Op& op, const Found& found);
  void forget_record(Op& op, const Record* found);
  void append_chunk(Op& op, const Record* found);
  void read_record(Op& op, const Record* found);

  void commit();
  void apply(Appender::Change& change);
  bool refuses_new_data() const;

  Core& core_;
  Appender& appender_;
  Reads& reads_;
  const Time now_;
  Record read_record_;
};

}  // namespace once::journal
