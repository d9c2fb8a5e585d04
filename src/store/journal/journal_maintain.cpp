// What the journal does beside requests. Each call does a little; what takes long is done without the writer's mutex or
// in small pieces, so that no request waits for more than a moment.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "store/journal/journal_store.hpp"

namespace once {

using journal::Place;
using journal::Shard;
using journal::SlotTable;
using Condition = JournalStats::Condition;

namespace {

// Every key is looked at once in about this many calls: a minute. Looking more often costs more than the memory that
// comes back sooner is worth.
constexpr std::size_t calls_per_sweep = 600;
constexpr std::size_t least_slots_per_call = 4096;
constexpr std::size_t slots_at_once = 8192;  // with the mutex held
constexpr std::uint64_t most_carried_at_once = std::uint64_t{256} << 10U;
constexpr int carries_per_call = 8;
// What carrying leaves of a record that has expired.
constexpr std::uint64_t tombstone_bytes = journal::largest_put_overhead;
constexpr Duration look_for_room_every = std::chrono::seconds(1);
// More than a night without requests.
constexpr Duration far_ahead = std::chrono::hours(24);
constexpr Duration idle_before_mark = std::chrono::seconds(1);
// Segments that are nearly empty, as many short runs leave them, are not worth a file each.
constexpr std::size_t most_segments = 512;

}  // namespace

void JournalStore::maintain() {
  if (condition_.load(std::memory_order_relaxed) == Condition::failed) return;
  const Time now = clock_.now();
  look_at_clock(now);
  prepare_spare();
  end_old_segment(now);
  count_segments_anew();
  sweep();
  clean(now);
  look_for_room(now);
  sync_interval(now);
  mark_when_idle(now);
}

void JournalStore::look_at_clock(Time now) {
  const bool waited = deletion_time_.waits();
  const std::scoped_lock lock(writing_);
  deletes_by_ = deletion_time_.at(now, clock_.running());
  const bool waits = deletion_time_.waits();
  const Duration ahead = waits ? now - deletes_by_ : Duration::zero();
  counters_.clock_ahead.store(ahead, std::memory_order_relaxed);
  if (waits && !waited && ahead >= far_ahead) {
    log_.warn("the clock is ahead of the elapsed time; no records are deleted for now",
              {{"seconds", std::chrono::floor<std::chrono::seconds>(ahead).count()}});
  }
}

void JournalStore::prepare_spare() {
  std::uint64_t size = 0;
  {
    const std::scoped_lock lock(writing_);
    const bool quiet = segments_.room() > segments_.tail();  // and needs none
    if (!failure_.empty() || segments_.has_spare() || segments_.disk_is_full() || quiet) return;
    size = segments_.spare_size(journal::Need::keys);
    making_spare_ = size > 0;
  }
  if (size == 0) return;
  auto spare = journal::SegmentLog::make_spare(disk_, size);
  const std::scoped_lock lock(writing_);
  making_spare_ = false;
  background_.notify_all();
  // Without space for it, the active segment still has room for a while.
  if (const auto made = segments_.adopt(std::move(spare)); !made && made.error().fault != DiskFault::no_space) {
    fail(made.error());
  }
  publish_sizes();
}

// Enough of it on disk to end being full.
bool JournalStore::has_room() const {
  const std::uint64_t quarter = (segments_.tail() + segments_.room()) / 4;
  return segments_.has_spare() || segments_.room() >= quarter + reserve(live_claims_);
}

// Whether a journal that was full has room again.
void JournalStore::look_for_room(Time now) {
  if (now < room_looked_for_at_ + look_for_room_every && now >= room_looked_for_at_) return;
  room_looked_for_at_ = now;
  const bool full = condition_.load(std::memory_order_relaxed) == Condition::full;
  const JournalStats seen = full ? stats() : JournalStats();
  const std::scoped_lock lock(writing_);
  segments_.try_again();
  if (!full) return;
  const std::uint64_t slots = seen.index_bytes / sizeof(SlotTable::Slot);
  const std::uint64_t index_limit = settings_.max_memory - std::min(settings_.max_memory, settings_.cache_bytes);
  const bool memory = seen.keys * 20 < slots * 13 || seen.index_bytes + seen.index_bytes / 64 <= index_limit;
  if (!memory || !has_room() || segments_.over_limit()) return;
  auto expected = Condition::full;
  if (!condition_.compare_exchange_strong(expected, Condition::well, std::memory_order_relaxed)) return;
  log_.info("the journal has room again");
}

void JournalStore::end_old_segment(Time now) {
  const std::scoped_lock lock(writing_);
  const Time since = segments_.active_since();
  // It may have begun in what is now the future: the clock was set back.
  const bool young = now < since + settings_.segment_age && since < now + settings_.segment_age;
  if (!failure_.empty() || segments_.active_is_empty() || young) return;
  DiskResult<void> done = segments_.ensure_spare(journal::Need::keys);
  if (done) done = roll(now);
  if (!done && done.error().fault != DiskFault::no_space) fail(done.error());  // else it grows older
}

// A place has few bits for its segment. Long before they run out, all places count from the oldest segment there is:
// rare enough, and short enough, to keep everybody waiting.
void JournalStore::count_segments_anew() {
  const std::scoped_lock lock(writing_);
  if (!failure_.empty() || std::to_underlying(segments_.ordinal(segments_.active())) <= settings_.count_anew_after) {
    return;
  }
  const std::uint32_t later = segments_.count_anew();
  if (later == 0) return;
  for (Shard& shard : shards_) {
    const std::scoped_lock shard_lock(shard.mutex);
    for (std::size_t i = 0; i < shard.slots.size(); ++i) {
      SlotTable::Slot& slot = shard.slots.at(i);
      if (!slot.place.empty()) slot.place = slot.place.counted_later(later);
    }
  }
}

void JournalStore::sweep() {
  std::size_t left = std::max<std::size_t>(
      counters_.index_bytes.load(std::memory_order_relaxed) / sizeof(SlotTable::Slot) / calls_per_sweep,
      least_slots_per_call);
  for (std::size_t shards = 0; left > 0 && shards < shards_.size();) {
    const std::scoped_lock lock(writing_);
    if (!failure_.empty()) return;
    Shard& shard = shards_[sweep_shard_];
    const std::scoped_lock shard_lock(shard.mutex);
    left -= std::min(left, sweep_some(shard, std::min(left, slots_at_once)));
    if (shard.sweep_at < shard.slots.size()) continue;
    shard.sweep_at = 0;
    const std::size_t before = shard.slots.bytes();
    shard.slots.give_back_memory();
    counters_.index_bytes.fetch_sub(before - shard.slots.bytes(), std::memory_order_relaxed);
    sweep_shard_ = (sweep_shard_ + 1) % shards_.size();
    ++shards;
  }
}

std::size_t JournalStore::sweep_some(Shard& shard, std::size_t limit) {
  std::size_t looked = 0;
  for (; looked < limit && shard.sweep_at < shard.slots.size(); ++looked) {
    SlotTable::Slot& slot = shard.slots.at(shard.sweep_at);
    if (slot.place.empty() || !journal::has_passed(slot.expires, deletes_by_)) {
      ++shard.sweep_at;
      continue;
    }
    drop(shard, slot);  // another one may have taken its slot
  }
  return looked;
}

void JournalStore::drop(Shard& shard, SlotTable::Slot& slot) {
  count_live(slot.place, -1);
  shard.forget(slot);
  shard.slots.erase(slot);
  counters_.expired.fetch_add(1, std::memory_order_relaxed);
}

// The oldest segment is opened and read without the mutex: only this thread drops it.
void JournalStore::clean(Time now) {
  for (int i = 0; i < carries_per_call; ++i) {
    journal::Segment oldest;
    {
      const std::scoped_lock lock(writing_);
      if (failure_.empty()) drop_what_is_empty();
      if (!failure_.empty() || cannot_clean_ || (!carry_ && !worth_carrying())) return;
      oldest = segments_.oldest();
    }
    if (!carry_ && !start_carrying(oldest)) return;
    if (!read_to_carry(oldest)) return;
    std::unique_lock lock(writing_);
    if (!failure_.empty() || !carry_some(lock, now)) return;
  }
}

void JournalStore::drop_what_is_empty() {
  while (segments_.has_sealed() && segments_.oldest().live == 0) {
    carry_.reset();
    // What took the place of its records has to be on disk before they go.
    if (segments_.durable_up_to() < segments_.tail()) {
      if (const auto synced = segments_.sync(); !synced) return fail(synced.error());
    }
    if (const auto dropped = segments_.drop_oldest(); !dropped) return no_room_or_fail(dropped.error());
    counters_.segments_dropped.fetch_add(1, std::memory_order_relaxed);
    publish_sizes();
  }
}

// The log is cleaned from its oldest end. Doing it when more than half of it is of no use bounds both the disk that is
// wasted and the copying: what is copied is never more than what is won.
bool JournalStore::worth_carrying() const {
  if (!segments_.has_sealed() || segments_.oldest().live == 0) return false;
  const bool small = segments_.sealed_bytes() / segments_.count() < settings_.segment_bytes / 4;
  if (segments_.count() > most_segments && small) return true;
  std::uint64_t live = 0;
  segments_.for_each_sealed([&](const journal::Segment& segment) {
    live += segment.expires_by <= deletes_by_ ? std::min(segment.live_bytes, segment.live * tombstone_bytes)
                                              : segment.live_bytes;
  });
  const std::uint64_t sealed = segments_.sealed_bytes();
  const std::uint64_t dead = sealed - std::min(sealed, live);
  const bool pressed = segments_.disk_bytes() + 2 * settings_.segment_bytes > settings_.max_disk;
  return pressed ? dead > sealed / 8 : dead > live && dead > settings_.segment_bytes;
}

bool JournalStore::start_carrying(const journal::Segment& oldest) {
  auto file = disk_.open(journal::segment_name(oldest.number), Access::read);
  if (!file) {
    cannot_clean_ = file.error().fault != DiskFault::no_space;
    log_.error("the oldest segment cannot be read and is not removed", {{"error", file.error().detail}});
    return false;
  }
  auto scan = std::make_unique<journal::SegmentScan>(**file, oldest.salt, journal::header_size, oldest.end);
  carry_ = Carry{.file = std::move(*file), .scan = std::move(scan)};
  return true;
}

bool JournalStore::read_to_carry(const journal::Segment& oldest) {
  if (carry_->held) return true;  // in the buffer that reading would fill
  if (carry_->scan->fetch()) return true;
  damaged_oldest(oldest.number);
  return false;
}

void JournalStore::damaged_oldest(journal::SegmentNumber number) {
  cannot_clean_ = true;
  log_.error("the oldest segment is damaged and is not removed",
             {{"segment", std::to_underlying(number)}, {"offset", carry_->scan->offset()}});
}

// With segments of the usual size, not more than a request may wait for.
std::uint64_t JournalStore::carried_at_once() const {
  return std::min(most_carried_at_once, settings_.segment_bytes / 8);
}

// Copies what counts in the next piece of the oldest segment to the end of the log. False: not now.
bool JournalStore::carry_some(std::unique_lock<std::mutex>& lock, Time now) {
  const std::uint64_t wanted =
      journal::mark_frame_size + (carry_->held ? carry_->scan->frame().size : 2 * carried_at_once());
  make_room({.bytes = wanted, .need = journal::Need::carrying}, lock, now);
  if (!failure_.empty() || room_ < wanted + reserve(live_claims_)) return false;
  const auto moved = gather_next();
  if (!moved) return false;
  if (const auto written = moved->empty() ? DiskResult<void>() : write_frames(); !written) {
    carry_.reset();
    no_room_or_fail(written.error());
    return false;
  }
  for (const auto& [id, place] : *moved) {
    Shard& shard = shard_of(id);
    const std::scoped_lock shard_lock(shard.mutex);
    SlotTable::Slot* slot = shard.slots.find(id);
    count_live(slot->place, -1);
    // Only a tombstone was carried. The copy in memory is still the whole record, and a clock that is set back would
    // bring it back: replayed to clients, while operators are shown a tombstone that cannot be forgotten.
    if (slot->place.state() != place.state()) shard.forget(id);
    slot->place = place;
    count_live(place, 1);
    // What was carried lives on there, and no longer than where it came from.
    journal::Segment& to = segments_.segment(place.segment());
    to.expires_by = std::max(to.expires_by, segments_.oldest().expires_by);
  }
  counters_.carried.fetch_add(moved->size(), std::memory_order_relaxed);
  ONCE_ASSERT(carry_->held || !carry_->scan->at_end() || segments_.oldest().live == 0);
  publish_sizes();
  return true;
}

// Into frames_, with the places that they will have. Empty: the segment cannot be read.
std::optional<JournalStore::Moved> JournalStore::gather_next() {
  frames_.clear();
  Moved moved;
  journal::SegmentScan& scan = *carry_->scan;
  for (const std::uint64_t begin = scan.offset(); carry_->held || scan.offset() - begin < carried_at_once();) {
    if (!std::exchange(carry_->held, false)) {
      if (!scan.is_fetched()) break;  // the rest has to be read first
      const auto step = scan.next();
      if (!step || *step == journal::SegmentScan::Step::bad) {
        damaged_oldest(segments_.oldest().number);
        return std::nullopt;
      }
      if (*step == journal::SegmentScan::Step::end) break;
    }
    const journal::Frame& frame = scan.frame();
    if (frame.seen.kind != journal::Kind::put) continue;
    const Place place(segments_.ordinal(segments_.oldest().number), frame.offset, frame.size, frame.seen.state);
    Shard& shard = shard_of(frame.seen.id);
    const std::scoped_lock shard_lock(shard.mutex);
    SlotTable::Slot* slot = shard.slots.find(frame.seen.id);
    if (slot == nullptr || slot->place != place) continue;
    const bool owned = slot->expires == journal::never_expires || frame.seen.lease_until != Time::min();
    // Slots count whole seconds, so sweep() may not have come to it. It must not become a tombstone that nobody asked
    // for.
    if (!owned && frame.seen.forget_at <= deletes_by_) {
      drop(shard, *slot);
      continue;
    }
    if (with_frames(frame.size) + reserve(live_claims_) > room_) {
      carry_->held = true;
      break;
    }
    if (frames_.empty()) journal::append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by_);
    const std::uint64_t at = frames_.size();
    const State state = carry(frame, place, owned ? Time::min() : deletes_by_);
    moved.emplace_back(frame.seen.id,
                       Place(segments_.ordinal(segments_.active()), segments_.tail() + at, frames_.size() - at, state));
  }
  return moved;
}

// Into frames_: as it is, but of what has expired by `at` no more than that. Where it comes to nobody can see any more
// that it was written before this process began, so what a lease has gained by that goes with it.
State JournalStore::carry(const journal::Frame& frame, Place from, Time at) {
  const journal::Address address = segments_.address(from);
  const bool gained = frame.seen.lease_until != Time::min() && past_runs_.is_past(address);
  if (frame.seen.expires_at > at && !gained) {
    journal::append_payload(frames_, segments_.salt(), frame.payload);
    return frame.seen.state;
  }
  Record record = journal::decode_put(frame.payload);
  if (gained) record.lease_until = past_runs_.lease(record.lease_until, address);
  age(record, at);
  journal::append_put(frames_, segments_.salt(), frame.seen.id, record, journal::labels_of(frame.payload));
  return record.state;
}

void JournalStore::sync_interval(Time now) {
  if (settings_.sync != Sync::interval) return;
  journal::SegmentLog::Unsynced unsynced;
  {
    const std::scoped_lock lock(writing_);
    const bool due = now >= last_sync_ + settings_.sync_interval || now < last_sync_;
    if (!failure_.empty() || !due || segments_.durable_up_to() == segments_.tail()) return;
    last_sync_ = now;
    unsynced = segments_.unsynced();
    syncing_ = true;
  }
  const auto synced = unsynced.file->sync();
  const std::scoped_lock lock(writing_);
  syncing_ = false;
  background_.notify_all();
  counters_.syncs.fetch_add(1, std::memory_order_relaxed);
  if (synced) {
    segments_.synced(unsynced);
  } else {
    fail(synced.error());
  }
}

// A batch is known to be whole from the mark of the next one. When none comes, this one says it.
void JournalStore::mark_when_idle(Time now) {
  const std::scoped_lock lock(writing_);
  const bool busy = now >= last_write_ && now < last_write_ + idle_before_mark;
  if (!failure_.empty() || marked_up_to_ == segments_.tail() || busy) return;
  if (segments_.durable_up_to() < segments_.tail() ||
      segments_.room() < journal::mark_frame_size + reserve(live_claims_))
    return;
  frames_.clear();
  journal::append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by_);
  if (const auto written = write_frames(); !written) return no_room_or_fail(written.error());
  marked_up_to_ = segments_.tail();
}

}  // namespace once
