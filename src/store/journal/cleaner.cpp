#include "store/journal/cleaner.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::journal {

namespace {

// Every key is visited once in about this many calls, that is a minute. More often would cost more than the memory that
// is freed sooner.
constexpr std::size_t calls_per_sweep = 600;
constexpr Duration time_of_sweep = std::chrono::minutes(1);
constexpr std::size_t least_slots_per_call = 4096;
constexpr std::size_t slots_at_once = 8192;  // with the lock held
constexpr std::uint64_t most_carried_at_once = std::uint64_t{256} << 10U;
constexpr int carries_per_call = 8;
// Steps per call while space is short. With fewer, a client that writes as fast as the disk allows would fill the disk.
constexpr int carries_when_short = 64;
// The write rate that a slow disk allows besides requests.
constexpr std::uint64_t carried_per_second = std::uint64_t{32} << 20U;
// The size of the tombstone that carrying forward makes of an expired record.
constexpr std::uint64_t tombstone_bytes = largest_put_overhead;
// Beyond this, nearly empty segments, as many short runs leave them, are merged.
constexpr std::size_t most_segments = 512;

}  // namespace

Duration reclaims_within(const JournalSettings& settings) {
  return time_of_sweep + std::chrono::seconds(settings.max_disk / carried_per_second);
}

void Cleaner::sweep() {
  std::size_t left =
      std::max<std::size_t>(core_.index.bytes() / sizeof(SlotTable::Slot) / calls_per_sweep, least_slots_per_call);
  for (std::size_t shards = 0; left > 0 && shards < Index::shard_count;) {
    const auto appender = core_.appender.lock();
    if (appender->has_failed()) return;
    const auto shard = core_.index.change_at(*appender, sweep_shard_);
    if (shard->sweep_at == 0) drop_expired_chunks(*appender, *shard);
    left -= std::min(left, sweep_some(*appender, *shard, std::min(left, slots_at_once)));
    if (shard->sweep_at < shard->slots.size()) continue;
    shard->sweep_at = 0;
    core_.index.give_back_memory(*shard);
    sweep_shard_ = (sweep_shard_ + 1) % Index::shard_count;
    ++shards;
  }
}

std::size_t Cleaner::sweep_some(Appender& appender, Shard& shard, std::size_t limit) {
  std::size_t looked = 0;
  for (; looked < limit && shard.sweep_at < shard.slots.size(); ++looked) {
    SlotTable::Slot& slot = shard.slots.at(shard.sweep_at);
    if (slot.place.empty() || !has_passed(slot.expires, appender.deletes_by())) {
      ++shard.sweep_at;
      continue;
    }
    drop(appender, shard, slot);  // does not advance: another slot may have moved here
  }
  return looked;
}

void Cleaner::drop(Appender& appender, Shard& shard, SlotTable::Slot& slot) {
  appender.segments().count_live(slot.place, -1);
  if (!shard.chunks.empty()) core_.index.end_chunks(appender.segments(), shard, slot.tag);
  shard.forget(slot.tag);
  shard.slots.erase(slot);
  core_.counters.expired.add(1);
}

// Only needed for records that are remembered for longer than their chunks.
void Cleaner::drop_expired_chunks(Appender& appender, Shard& shard) {
  for (const SlotTable::Tag& tag : shard.chunks.expired(appender.deletes_by())) drop_chunks(appender, shard, tag);
}

// Also drop the cached record: if the clock is set back, it would be valid again without its body.
void Cleaner::drop_chunks(Appender& appender, Shard& shard, const SlotTable::Tag& tag) {
  shard.forget(tag);
  core_.index.end_chunks(appender.segments(), shard, tag);
}

void Cleaner::clean(Time now) {
  int most = carries_per_call;
  for (int i = 0; i < most; ++i) {
    Segment oldest;
    {
      const auto appender = core_.appender.lock();
      if (!appender->has_failed() && appender->drop_empty_segments() == Appender::Dropped::some) carry_.reset();
      if (appender->has_failed() || cannot_clean_ || (!carry_ && !worth_carrying(*appender))) return;
      oldest = appender->segments().oldest();
      if (has_less_than(core_.settings.max_disk / 4, *appender)) most = carries_when_short;
    }
    if (!carry_ && !start_carrying(oldest)) return;
    if (!read_to_carry(oldest)) return;
    auto appender = core_.appender.lock();
    if (appender->has_failed() || carry_some(appender, now) == Carried::no) return;
  }
}

bool Cleaner::has_less_than(std::uint64_t bytes, const Appender& appender) const {
  return appender.segments().disk_bytes() + bytes > core_.settings.max_disk;
}

// The log is cleaned from its oldest end. Cleaning when more than half of it is obsolete bounds both the wasted disk
// space and the copying: it never copies more bytes than it frees. The less space is left, the more may be copied.
bool Cleaner::worth_carrying(const Appender& appender) const {
  const SegmentLog& segments = appender.segments();
  if (!segments.has_sealed() || !segments.oldest().is_needed()) return false;
  const JournalSettings& settings = core_.settings;
  const bool small = segments.sealed_bytes() / segments.count() < settings.segment_bytes / 4;
  if (segments.count() > most_segments && small) return true;
  std::uint64_t live = 0;
  segments.for_each_sealed([&](const Segment& segment) {
    live += segment.expires_by <= appender.deletes_by() ? std::min(segment.live_bytes, segment.live * tombstone_bytes)
                                                        : segment.live_bytes;
    live += segment.chunk_bytes;
  });
  const std::uint64_t sealed = segments.sealed_bytes();
  const std::uint64_t dead = sealed - std::min(sealed, live);
  if (has_less_than(2 * settings.segment_bytes, appender)) return dead > sealed / 8;
  if (dead <= settings.segment_bytes) return false;
  return has_less_than(settings.max_disk / 4, appender) ? dead > sealed / 4 : dead > live;
}

bool Cleaner::start_carrying(const Segment& oldest) {
  auto file = core_.disk.open(segment_name(oldest.number), Access::read);
  if (!file) {
    cannot_clean_ = file.error().fault != DiskFault::no_space;
    core_.log.error("the oldest segment cannot be read and is not removed", {{"error", file.error().detail}});
    return false;
  }
  auto scan = std::make_unique<SegmentScan>(**file, oldest.salt, header_size, oldest.end);
  carry_ = Carry{.file = std::move(*file), .scan = std::move(scan)};
  return true;
}

bool Cleaner::read_to_carry(const Segment& oldest) {
  if (carry_->held) return true;  // reading would overwrite the current frame in the buffer
  if (carry_->scan->fetch()) return true;
  damaged_oldest(oldest.number);
  return false;
}

void Cleaner::damaged_oldest(SegmentNumber number) {
  cannot_clean_ = true;
  core_.log.error("the oldest segment is damaged and is not removed",
                  {{"segment", std::to_underlying(number)}, {"offset", carry_->scan->offset()}});
}

// Limits how long a request waits for one step, with segments of the usual size.
std::uint64_t Cleaner::carried_at_once() const {
  return std::min(most_carried_at_once, core_.settings.segment_bytes / 8);
}

Cleaner::Carried Cleaner::carry_some(Locked<Appender>& appender, Time now) {
  const std::uint64_t wanted = mark_frame_size + (carry_->held ? carry_->scan->frame().size : 2 * carried_at_once());
  Appender::make_room(appender, {.bytes = wanted, .need = Need::carrying}, now);
  if (appender->has_failed() || !appender->has_room_to_write(wanted)) return Carried::no;
  const auto moved = gather_next(*appender);
  if (!moved) return Carried::no;
  if (!moved->empty() && !appender->write()) {
    sometimes<"cleaner: a write fails">();
    carry_.reset();
    return Carried::no;
  }
  move(*appender, *moved);
  core_.counters.carried.add(moved->size());
  ONCE_ASSERT(carry_->held || !carry_->scan->at_end() || !appender->segments().oldest().is_needed());
  appender->publish_sizes();
  return Carried::yes;
}

std::optional<Cleaner::Moved> Cleaner::gather_next(Appender& appender) {
  appender.begin_write();
  Moved moved;
  SegmentScan& scan = *carry_->scan;
  const SegmentLog& segments = appender.segments();
  for (const std::uint64_t begin = scan.offset(); carry_->held || scan.offset() - begin < carried_at_once();) {
    if (!std::exchange(carry_->held, false)) {
      if (!scan.is_fetched()) break;  // the rest must be read first
      const auto step = scan.next();
      if (!step || *step == SegmentScan::Step::bad) {
        damaged_oldest(segments.oldest().number);
        return std::nullopt;
      }
      if (*step == SegmentScan::Step::end) break;
    }
    const Frame& frame = scan.frame();
    const Place place(segments.ordinal(segments.oldest().number), frame.offset, frame.size, frame.seen.state,
                      frame.seen.body_kept);
    std::optional<MovedFrame> next;
    if (frame.seen.kind == Kind::put) next = gather_record(appender, frame, place);
    if (frame.seen.kind == Kind::chunk) next = gather_chunk(appender, frame, place);
    if (carry_->held) break;
    if (next) moved.push_back(*next);
  }
  return moved;
}

std::optional<Cleaner::MovedFrame> Cleaner::gather_record(Appender& appender, const Frame& frame, Place place) {
  const auto shard = core_.index.change(appender, frame.seen.id);
  SlotTable::Slot* slot = shard->slots.find(frame.seen.id);
  if (slot == nullptr || slot->place != place) return std::nullopt;
  const bool owned = slot->expires == never_expires || frame.seen.lease_until != Time::min();
  sometimes<"cleaner: meets a live claim of this process">(slot->expires == never_expires);
  sometimes<"cleaner: meets a claim whose lease runs">(
      slot->expires != never_expires && frame.seen.lease_until != Time::min() &&
      frame.seen.forget_at <= appender.deletes_by() && !has_passed(slot->expires, appender.deletes_by()));
  // Slots store whole seconds, so sweep() may not have removed it yet. It must not become a tombstone if its claim
  // asked for none.
  if (!owned && frame.seen.forget_at <= appender.deletes_by()) {
    drop(appender, *shard, *slot);
    return std::nullopt;
  }
  carry_->held = !appender.has_room_for(frame.size);
  sometimes<"cleaner: no room to carry a record">(carry_->held);
  if (carry_->held) return std::nullopt;
  const Place to = carry(appender, frame, place, owned ? Time::min() : appender.deletes_by());
  return MovedFrame{.id = frame.seen.id, .from = place, .to = to};
}

std::optional<Cleaner::MovedFrame> Cleaner::gather_chunk(Appender& appender, const Frame& frame, Place place) {
  const auto shard = core_.index.change(appender, frame.seen.id);
  const ChunkPlaces::List* list = shard->chunks.find(frame.seen.id);
  const std::uint32_t number = frame.seen.chunk;
  if (list == nullptr || number >= list->places.size() || list->places[number] != place) return std::nullopt;
  if (list->needed_until <= appender.deletes_by()) {
    sometimes<"cleaner: drops chunks that have expired">();
    drop_chunks(appender, *shard, SlotTable::tag_of(frame.seen.id));
    return std::nullopt;
  }
  carry_->held = !appender.has_room_for(frame.size);
  if (carry_->held) return std::nullopt;
  return MovedFrame{.id = frame.seen.id, .from = place, .to = appender.copy(frame), .chunk = number};
}

// Copies the frame unchanged, or as a tombstone if it has expired by `at`. In the copy it is not visible that the
// record was written before this process began, so the extension of its lease at the start is written out.
Place Cleaner::carry(Appender& appender, const Frame& frame, Place from, Time at) const {
  const Address address = appender.segments().address(from);
  const bool gained = frame.seen.lease_until != Time::min() && core_.past_runs.is_past(address);
  if (frame.seen.expires_at > at && !gained) return appender.copy(frame);
  Record record = decode_put(frame.payload);
  sometimes<"cleaner: writes out the lease that a restart gave">(gained);
  if (gained) record.lease_until = core_.past_runs.lease(record.lease_until, address);
  age(record, at);
  return appender.copy_changed(frame.seen.id, record, labels_of(frame.payload));
}

void Cleaner::move(Appender& appender, const Moved& moved) {
  SegmentLog& segments = appender.segments();
  for (const MovedFrame& each : moved) {
    const auto shard = core_.index.change(appender, each.id);
    if (!each.chunk) {
      move_record(segments, *shard, each);
      continue;
    }
    // It has none if the record became a tombstone in this write.
    ChunkPlaces::List* list = shard->chunks.find(each.id);
    sometimes<"cleaner: a body expires while it is carried">(list == nullptr);
    if (list == nullptr) continue;
    segments.count_chunk(each.from, -1);
    list->places[*each.chunk] = each.to;
    segments.count_chunk(each.to, 1);
  }
}

void Cleaner::move_record(SegmentLog& segments, Shard& shard, const MovedFrame& moved) {
  SlotTable::Slot* slot = shard.slots.find(moved.id);
  segments.count_live(slot->place, -1);
  // Only a tombstone was carried. The cached record is still the whole one: if the clock is set back it would be
  // replayed to clients, while operators see a tombstone that cannot be forgotten.
  if (moved.from.state() != moved.to.state()) {
    sometimes<"cleaner: carries a tombstone">();
    shard.forget(moved.id);
    if (!shard.chunks.empty()) core_.index.end_chunks(segments, shard, slot->tag);
  }
  slot->place = moved.to;
  segments.count_live(moved.to, 1);
  // The carried records are now in that segment, and live no longer than the segment they came from.
  Segment& to = segments.segment(moved.to.segment());
  to.expires_by = std::max(to.expires_by, segments.oldest().expires_by);
}

}  // namespace once::journal
