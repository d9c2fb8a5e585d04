#include "store/journal/appender.hpp"

#include <algorithm>
#include <utility>

#include "base/sometimes.hpp"

namespace once::journal {

namespace {

constexpr Duration idle_before_mark = std::chrono::seconds(1);

}  // namespace

Appender::Appender(Disk& disk, const Log& log, const JournalSettings& settings, Counters& counters)
    : settings_(settings),
      counters_(counters),
      segments_(disk, {.segment_bytes = settings.segment_bytes, .max_disk = settings.max_disk}),
      health_(log, counters),
      deletion_clock_(log, counters) {}

void Appender::start(const JournalId& journal, Fence last_fence) {
  journal_ = journal;
  last_fence_ = std::to_underlying(last_fence);
}

DiskResult<void> Appender::begin_run(Time now, const SegmentLog::Fill& fill) {
  auto rolled =
      segments_.roll({.journal = journal_, .last_fence = Fence{last_fence_}, .now = now, .begins_run = true}, fill);
  if (rolled) marked_up_to_ = segments_.tail();
  last_write_ = last_sync_ = now;
  return rolled;
}

void Appender::close() {
  if (has_failed() || segments_.count() == 0) return;
  if (const auto synced = segments_.sync(); !synced || segments_.room() < mark_frame_size) return;
  frames_.clear();
  append_mark_to_frames();
  if (!segments_.append(frames_) || !segments_.sync()) return;
  // A failure is ignored: without the note, a start only cannot tell a lost end of the log from a crash.
  [[maybe_unused]] const auto noted = segments_.note_end();
}

void Appender::begin_write() {
  frames_.clear();
  changes_.clear();
}

void Appender::append_mark_to_frames() {
  append_mark(frames_, segments_.salt(), segments_.durable_up_to(), deletes_by());
}

// The first frame of a write is preceded by a mark.
void Appender::begin_frame() {
  if (frames_.empty()) append_mark_to_frames();
}

Place Appender::place_from(std::uint64_t begin, State state, BodyKept kept) const {
  return {segments_.ordinal(segments_.active()), segments_.tail() + begin, frames_.size() - begin, state, kept};
}

void Appender::put(Op& op, Record&& record, const Labels& labels, std::uint32_t chunks) {
  begin_frame();
  const std::uint64_t begin = frames_.size();
  const bool fits = has_room_for(put_frame_size(record, labels));
  append_put(frames_, segments_.salt(), op.id, record, fits ? labels : Labels(), chunks);
  const Place place = place_from(begin, record.state, record.body_kept);
  changes_.push_back({.op = &op, .record = std::move(record), .place = place});
}

void Appender::remove(Op& op, Fence fence) {
  begin_frame();
  append_remove(frames_, segments_.salt(), op.id, fence);
  changes_.push_back({.op = &op, .kind = Kind::remove});
}

void Appender::add_chunk(Op& op, const Record& record) {
  begin_frame();
  const std::uint64_t begin = frames_.size();
  const ChunkName name{.id = op.id, .nonce = record.nonce, .fence = record.fence, .number = op.chunk};
  append_chunk(frames_, segments_.salt(), name, *op.outcome);
  changes_.push_back({.op = &op, .kind = Kind::chunk, .record = record, .place = place_from(begin, State::started)});
}

Place Appender::copy(const Frame& frame) {
  begin_frame();
  const std::uint64_t begin = frames_.size();
  append_payload(frames_, segments_.salt(), frame.payload);
  return place_from(begin, frame.seen.state, frame.seen.body_kept);
}

Place Appender::copy_changed(const OperationId& id, const Record& record, const Labels& labels) {
  begin_frame();
  const std::uint64_t begin = frames_.size();
  append_put(frames_, segments_.salt(), id, record, labels);
  return place_from(begin, record.state, record.body_kept);
}

DiskResult<void> Appender::write_frames() {
  if (auto written = segments_.append(frames_); !written) return written;
  counters_.bytes_written.add(frames_.size());
  if (settings_.sync != Sync::always) return {};
  counters_.syncs.add(1);
  return segments_.sync();
}

DiskResult<void> Appender::write() {
  auto written = write_frames();
  // A preallocated file ran out of space: what was there before is intact, and a new segment will record where it ends.
  // After any other error the state is unknown.
  if (!written) health_.no_room_or_fail(written.error());
  return written;
}

DiskResult<void> Appender::write_changes(Time now) {
  auto written = write();
  if (written) last_write_ = now;
  return written;
}

void Appender::make_room(Locked<Appender>& appender, const Wanted& wanted, Time now) {
  Appender& at = *appender;
  SegmentLog& segments = at.segments_;
  const auto must_roll = [&] { return segments.room() < wanted.bytes; };
  const auto reserved = [&] { return outcomes_of(at.live_claims_ + wanted.ops); };
  const auto least = [&] { return header_size + reserved() + (must_roll() ? wanted.bytes : 0); };
  const auto lacks_spare = [&] {
    return segments.spare_capacity() < least() && segments.room() < wanted.bytes + reserved();
  };
  // The system reports a failed sync only once, so a second sync at the same time could succeed wrongly. So do not roll
  // meanwhile.
  appender.wait(at.background_, [&] { return !(at.making_spare_ && lacks_spare()) && !(at.syncing_ && must_roll()); });
  sometimes<"journal: a write needs a new segment before upkeep made one">(lacks_spare());
  // Creating the segment here blocks all writers, but the upkeep was too late.
  if (lacks_spare() && !at.has_failed()) {
    if (const auto made = segments.ensure_spare(wanted.need, least()); !made) at.health_.no_room_or_fail(made.error());
  }
  const bool helps = segments.spare_capacity() > header_size + segments.room();
  if (must_roll() && helps && !at.has_failed()) {
    if (const auto rolled = at.roll(now); !rolled) at.health_.no_room_or_fail(rolled.error());
  }
  at.room_ = segments.room();
}

bool Appender::has_room_for(std::uint64_t frame, const Beside& beside) const {
  return with_frames(frame) + reserve(live_claims_ + changes_.size() + beside.claims) + beside.bytes <= room_;
}

bool Appender::has_room_again() const {
  const std::uint64_t quarter = (segments_.tail() + segments_.room()) / 4;
  return segments_.has_spare() || segments_.room() >= quarter + reserve(live_claims_);
}

DiskResult<void> Appender::roll(Time now) {
  auto rolled = segments_.roll({.journal = journal_, .last_fence = Fence{last_fence_}, .now = now});
  if (rolled) marked_up_to_ = segments_.tail();
  publish_sizes();
  return rolled;
}

// The size of the write with one more frame.
std::uint64_t Appender::with_frames(std::uint64_t size) const {
  return (frames_.empty() ? mark_frame_size : frames_.size()) + size;
}

// The space for the outcomes of so many claims, if their bodies must be left out.
std::uint64_t Appender::outcomes_of(std::uint64_t claims) {
  constexpr std::uint64_t slack = 512;  // an idle mark, and a release of an uncounted claim
  constexpr std::uint64_t alone = mark_frame_size + largest_put_overhead;  // as a separate write
  return claims * alone + slack;
}

// The space to keep free in the active segment, unless a spare has enough.
std::uint64_t Appender::reserve(std::uint64_t claims) const {
  const std::uint64_t bytes = outcomes_of(claims);
  return segments_.spare_capacity() >= header_size + bytes ? 0 : bytes;
}

Appender::Dropped Appender::drop_empty_segments() {
  Dropped dropped_any = Dropped::none;
  while (segments_.has_sealed() && !segments_.oldest().is_needed()) {
    dropped_any = Dropped::some;
    // The records that replace the dropped ones must be on disk first.
    if (segments_.durable_up_to() < segments_.tail()) {
      sometimes<"journal: sync before a segment is dropped">();
      if (const auto synced = segments_.sync(); !synced) {
        health_.fail(synced.error());
        break;
      }
    }
    if (const auto dropped = segments_.drop_oldest(); !dropped) {
      health_.no_room_or_fail(dropped.error());
      break;
    }
    counters_.segments_dropped.add(1);
    publish_sizes();
  }
  return dropped_any;
}

std::uint64_t Appender::begin_spare() {
  const bool quiet = segments_.room() > segments_.tail();  // less than half full: no spare is needed yet
  if (has_failed() || segments_.has_spare() || segments_.disk_is_full() || quiet) return 0;
  const std::uint64_t size = segments_.spare_size(Need::keys);
  making_spare_ = size > 0;
  return size;
}

void Appender::end_spare(DiskResult<SegmentLog::Spare> spare) {
  making_spare_ = false;
  background_.notify_all();
  // A full disk is no failure here: the active segment may still have space.
  if (const auto made = segments_.adopt(std::move(spare)); !made && made.error().fault != DiskFault::no_space) {
    health_.fail(made.error());
  }
  publish_sizes();
}

std::optional<SegmentLog::Unsynced> Appender::begin_sync(Time now) {
  const bool due = now >= last_sync_ + settings_.sync_interval || now < last_sync_;
  if (has_failed() || !due || segments_.durable_up_to() == segments_.tail()) return std::nullopt;
  last_sync_ = now;
  syncing_ = true;
  return segments_.unsynced();
}

void Appender::end_sync(const SegmentLog::Unsynced& unsynced, const DiskResult<void>& synced) {
  syncing_ = false;
  background_.notify_all();
  counters_.syncs.add(1);
  if (synced) {
    segments_.synced(unsynced);
  } else {
    health_.fail(synced.error());
  }
}

void Appender::mark_when_idle(Time now) {
  const bool busy = now >= last_write_ && now < last_write_ + idle_before_mark;
  if (has_failed() || marked_up_to_ == segments_.tail() || busy) return;
  if (segments_.durable_up_to() < segments_.tail() || segments_.room() < mark_frame_size + reserve(live_claims_))
    return;
  frames_.clear();
  append_mark_to_frames();
  if (!write()) return;
  marked_up_to_ = segments_.tail();
}

void Appender::publish_sizes() {
  counters_.disk_bytes.set(segments_.disk_bytes());
  counters_.segments.set(segments_.count());
  counters_.live_claims.set(live_claims_);
}

}  // namespace once::journal
