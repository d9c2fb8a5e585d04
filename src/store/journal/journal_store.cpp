#include "store/journal/journal_store.hpp"

#include "store/journal/recovery.hpp"

namespace once::journal {

namespace {

// Threads that read from disk, besides the one that writes.
constexpr std::size_t reading_parts = 4;

}  // namespace

Result<std::unique_ptr<JournalStore>> JournalStore::open(Disk& disk, const Clock& clock, Random& random, const Log& log,
                                                         const JournalSettings& settings) {
  const std::string note = disk.note();
  if (const auto locked = disk.lock(); !locked) {
    const bool in_use = locked.error().fault == DiskFault::in_use;
    return std::unexpected(Error{.source = ErrorSource::store,
                                 .retryable = in_use ? Retryable::yes : Retryable::no,
                                 .detail = locked.error().detail});
  }
  std::unique_ptr<JournalStore> store(new JournalStore(disk, clock, log, settings));
  const auto appender = store->core_.appender.lock();
  if (auto recovered = Recovery(store->core_, *appender).run(random, note); !recovered) {
    // Locking replaced the note, so store it again: without it, a later check of the damage takes a lost end for a
    // crash.
    [[maybe_unused]] const auto kept = disk.leave_note(note);
    appender->health().refuse(recovered.error().detail);
    return std::unexpected(recovered.error());
  }
  return store;
}

JournalStore::JournalStore(Disk& disk, const Clock& clock, const Log& log, const JournalSettings& settings)
    : core_(disk, clock, log, settings) {}

JournalStore::~JournalStore() {
  core_.appender.lock()->close();
}

bool JournalStore::answer_at_once(Op& op) {
  if (op.verb != Verb::claim && op.verb != Verb::lookup && op.verb != Verb::read) return false;
  return !failed_for_good() && core_.index.answer(op, core_.clock.now());
}

std::size_t JournalStore::part_of(const OperationId& id) const {
  const auto shard = core_.index.look(id);
  if (const auto* node = shard->hot.find(id)) {
    // Chunks of an interrupted response must be read; those of a streaming one are still being written.
    const bool reads_chunks = !Shard::is_live(node->record) && shard->chunks.find(id, node->record) != nullptr;
    if (!reads_chunks) return 0;
  } else if (!shard->slots.has(id)) {
    return 0;
  }
  return 1 + id.bytes.back() % reading_parts;
}

void JournalStore::maintain() {
  if (failed_for_good()) return;
  const Time now = core_.clock.now();
  upkeep_.look_at_clock(now);
  upkeep_.prepare_spare();
  upkeep_.end_old_segment(now);
  upkeep_.count_segments_anew();
  cleaner_.sweep();
  cleaner_.clean(now);
  upkeep_.look_for_room(now);
  upkeep_.sync_interval(now);
  upkeep_.mark_when_idle(now);
}

JournalStats JournalStore::stats() const {
  const Counters& counters = core_.counters;
  const Index::Sizes sizes = core_.index.sizes();
  return {.condition = counters.condition.get(),
          .keys = sizes.keys,
          .index_bytes = core_.index.bytes() + core_.index.chunk_bytes(),
          .cache_bytes = sizes.cache_bytes,
          .disk_bytes = counters.disk_bytes.get(),
          .segments = counters.segments.get(),
          .live_claims = counters.live_claims.get(),
          .bytes_written = counters.bytes_written.get(),
          .syncs = counters.syncs.get(),
          .refused = counters.refused.get(),
          .bodies_dropped = counters.bodies_dropped.get(),
          .expired = counters.expired.get(),
          .carried = counters.carried.get(),
          .segments_dropped = counters.segments_dropped.get(),
          .read_back = counters.read_back.get(),
          .clock_ahead = counters.clock_ahead.get()};
}

}  // namespace once::journal
