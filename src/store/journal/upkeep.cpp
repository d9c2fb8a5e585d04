#include "store/journal/upkeep.hpp"

#include <utility>

namespace once::journal {

namespace {

constexpr Duration look_for_room_every = std::chrono::seconds(1);

}  // namespace

void Upkeep::look_at_clock(Time now) {
  core_.appender.lock()->deletion_clock().look(now, core_.clock.running());
}

void Upkeep::prepare_spare() {
  const std::uint64_t size = core_.appender.lock()->begin_spare();
  if (size == 0) return;
  auto spare = SegmentLog::make_spare(core_.disk, size);
  core_.appender.lock()->end_spare(std::move(spare));
}

void Upkeep::end_old_segment(Time now) {
  const auto appender = core_.appender.lock();
  SegmentLog& segments = appender->segments();
  const Time since = segments.active_since();
  const Duration age = core_.settings.segment_age;
  // If the clock was set back, the segment's start may lie in the future. If it is more than `age` ahead, the segment
  // counts as old.
  const bool young = now < since + age && since < now + age;
  if (appender->has_failed() || segments.active_is_empty() || young) return;
  DiskResult<void> done = segments.ensure_spare(Need::keys);
  if (done) done = appender->roll(now);
  // If the disk is full, the active segment stays active.
  if (!done && done.error().fault != DiskFault::no_space) appender->health().fail(done.error());
}

// A place has few bits for its segment. Long before they run out, all places are renumbered from the oldest existing
// segment: rare and quick enough to block everything.
void Upkeep::count_segments_anew() {
  const auto appender = core_.appender.lock();
  SegmentLog& segments = appender->segments();
  if (appender->has_failed() ||
      std::to_underlying(segments.ordinal(segments.active())) <= core_.settings.count_anew_after) {
    return;
  }
  const std::uint32_t later = segments.count_anew();
  if (later == 0) return;
  for (std::size_t number = 0; number < Index::shard_count; ++number) {
    const auto shard = core_.index.change_at(*appender, number);
    for (std::size_t i = 0; i < shard->slots.size(); ++i) {
      SlotTable::Slot& slot = shard->slots.at(i);
      if (!slot.place.empty()) slot.place = slot.place.counted_later(later);
    }
    shard->chunks.for_each_place([later](Place& place) { place = place.counted_later(later); });
  }
}

// Checks whether a full journal has space again.
void Upkeep::look_for_room(Time now) {
  if (now < room_looked_for_at_ + look_for_room_every && now >= room_looked_for_at_) return;
  room_looked_for_at_ = now;
  const bool full = core_.counters.condition.get() == Condition::full;
  const bool memory = full && core_.index.has_memory_again();
  const auto appender = core_.appender.lock();
  appender->segments().try_again();
  if (!memory || !appender->has_room_again() || appender->segments().over_limit()) return;
  appender->health().set_well();
}

void Upkeep::sync_interval(Time now) {
  if (core_.settings.sync != Sync::interval) return;
  const auto unsynced = core_.appender.lock()->begin_sync(now);
  if (!unsynced) return;
  const auto synced = unsynced->file->sync();
  core_.appender.lock()->end_sync(*unsynced, synced);
}

void Upkeep::mark_when_idle(Time now) {
  core_.appender.lock()->mark_when_idle(now);
}

}  // namespace once::journal
