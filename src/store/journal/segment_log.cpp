#include "store/journal/segment_log.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/sometimes.hpp"

namespace once::journal {

namespace {

// The first segment is small, so that a start is quick and an idle gateway uses little disk; each one that fills up
// doubles the size of the next.
constexpr std::uint64_t first_segment_bytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t least_segment_bytes = std::uint64_t{64} << 10U;
constexpr std::size_t most_opened = 128;

DiskResult<void> write_zeros(File& file, std::uint64_t begin, std::uint64_t end) {
  const std::string zeros(std::min(end - begin, std::uint64_t{1} << 20U), '\0');
  for (std::uint64_t at = begin; at < end; at += zeros.size()) {
    const auto piece = std::string_view(zeros).substr(0, std::min<std::uint64_t>(zeros.size(), end - at));
    if (auto written = file.write_at(at, piece); !written) return written;
  }
  return {};
}

std::unexpected<DiskError> state_unknown(const DiskError& error) {
  return std::unexpected(DiskError{.fault = DiskFault::failed, .detail = error.detail});
}

}  // namespace

void SegmentLog::add(const Segment& segment) {
  ONCE_ASSERT(segments_.empty() ||
              std::to_underlying(segment.number) == std::to_underlying(segments_.back().number) + 1);
  if (segments_.empty()) before_first_ = std::to_underlying(segment.number) - 1;
  segments_.push_back(segment);
  sealed_bytes_ += segment.end;
}

std::uint64_t SegmentLog::limit(Need need) const {
  switch (need) {
    case Need::keys: return limits_.max_disk - std::min(limits_.segment_bytes, limits_.max_disk / 4);
    case Need::carrying: return limits_.max_disk;
    case Need::start: return std::numeric_limits<std::uint64_t>::max();
  }
  ONCE_ASSERT(false);
}

std::uint64_t SegmentLog::spare_size(Need need, std::uint64_t least) const {
  const std::uint64_t first = std::min(first_segment_bytes, limits_.segment_bytes);
  const bool filled_up = active_file_ != nullptr && tail() > active_capacity_ / 2;
  // The active segment may be tiny: on a full disk it is truncated after its data.
  const std::uint64_t wanted =
      std::clamp(filled_up ? active_capacity_ * 2 : active_capacity_, first, limits_.segment_bytes);
  const std::uint64_t others = disk_bytes() - spare_.capacity;
  const std::uint64_t left = limit(need) - std::min(limit(need), others);
  const std::uint64_t size = std::max(std::min(wanted, left), least);
  return size > left || size < std::min(first, least_segment_bytes) ? 0 : size;
}

DiskResult<SegmentLog::Spare> SegmentLog::make_spare(Disk& disk, std::uint64_t size) {
  auto file = disk.create(spare_name);
  if (!file) return std::unexpected(file.error());
  auto filled = write_zeros(**file, 0, size);
  if (filled) filled = (*file)->sync();
  if (!filled) {
    file->reset();
    // The file is removed to free its space; the error that made it useless is reported anyway.
    [[maybe_unused]] const auto removed = disk.remove(spare_name);
    return std::unexpected(filled.error());
  }
  return Spare{.file = std::move(*file), .capacity = size};
}

DiskResult<void> SegmentLog::adopt(DiskResult<Spare> spare) {
  disk_is_full_ = !spare && spare.error().fault == DiskFault::no_space;
  if (!spare) return std::unexpected(spare.error());
  spare_ = std::move(*spare);
  return {};
}

DiskResult<void> SegmentLog::ensure_spare(Need need, std::uint64_t least) {
  if (has_spare() && spare_.capacity >= least) return {};
  const std::uint64_t size = spare_size(need, least);
  if (size == 0) {
    return std::unexpected(DiskError{.fault = DiskFault::no_space,
                                     .detail = fmt::format("journal.max_disk is reached: {} bytes", disk_bytes())});
  }
  if (disk_is_full_) return std::unexpected(DiskError{.fault = DiskFault::no_space, .detail = "the disk is full"});
  return has_spare() ? extend_spare(size) : adopt(make_spare(disk_, size));
}

DiskResult<void> SegmentLog::extend_spare(std::uint64_t size) {
  if (auto filled = write_zeros(*spare_.file, spare_.capacity, size); !filled) {
    disk_is_full_ = filled.error().fault == DiskFault::no_space;
    if (!disk_is_full_) return filled;
    const auto cut = spare_.file->truncate(spare_.capacity);  // frees the part that was filled
    return cut ? filled : state_unknown(cut.error());
  }
  if (const auto synced = spare_.file->sync(); !synced) return state_unknown(synced.error());
  spare_.capacity = size;
  return {};
}

DiskResult<void> SegmentLog::roll(const Beginning& beginning, const Fill& fill) {
  if (active_file_ != nullptr && durable_up_to_ < tail()) {
    if (auto done = sync(); !done) return done;
  }
  ONCE_ASSERT(has_spare());
  const auto number = next_number();
  if (!number) return std::unexpected(number.error());
  SegmentHeader header{.journal = beginning.journal,
                       .number = *number,
                       .previous_end = segments_.empty() ? 0 : tail(),
                       .last_fence = beginning.last_fence,
                       .created_at = beginning.now,
                       .begins_run = beginning.begins_run};
  std::string bytes = encode(header);
  if (fill) fill(header, bytes);
  return begin_segment(header, bytes);
}

DiskResult<SegmentNumber> SegmentLog::next_number() const {
  if (segments_.empty()) return SegmentNumber{1};
  const auto refused = [this](std::string_view why) {
    return std::unexpected(DiskError{
        .detail = fmt::format("cannot begin the segment after {}: {}", disk_.path_of(segment_name(active())), why)});
  };
  const std::uint32_t last = std::to_underlying(active());
  if (last == std::numeric_limits<std::uint32_t>::max()) return refused("there are no higher numbers");
  // The upkeep renumbers all places long before this limit is reached.
  if (ordinal(active()) >= Place::last_segment) return refused("there are too many segments");
  return SegmentNumber{last + 1};
}

std::uint32_t SegmentLog::count_anew() {
  const std::uint32_t later = std::to_underlying(ordinal(oldest().number)) - 1;
  before_first_ += later;
  return later;
}

DiskResult<void> SegmentLog::begin_segment(const SegmentHeader& header, const std::string& bytes) {
  DiskResult<void> done = spare_.file->write_at(0, bytes);
  if (done) done = spare_.file->sync();
  if (!done) {
    sometimes<"journal: a new segment cannot be begun">();
    spare_ = Spare();  // whatever the result, this spare is used up
    return done;
  }
  done = disk_.rename(spare_name, segment_name(header.number));
  if (done) done = disk_.sync_names();
  if (!done) {
    sometimes<"journal: a segment may have its name or not">();
    // The new segment may already be on disk under its name. Its header ends the previous segment, so nothing may be
    // appended to the previous one.
    return state_unknown(done.error());
  }
  if (active_file_ != nullptr) {
    // Truncated only to free unused space: the header of the new segment says where this one ends.
    [[maybe_unused]] const auto cut = active_file_->truncate(tail());
    sealed_bytes_ += tail();
  }
  active_file_ = std::move(spare_.file);
  active_capacity_ = std::max<std::uint64_t>(spare_.capacity, bytes.size());
  spare_ = Spare();
  durable_up_to_ = bytes.size();
  segments_.push_back(
      {.number = header.number, .salt = header.salt, .end = bytes.size(), .created_at = header.created_at});
  return {};
}

DiskResult<void> SegmentLog::append(std::string_view frames) {
  ONCE_ASSERT(tail() + frames.size() <= Place::largest_offset);
  const auto written = active_file_->write_at(tail(), frames);
  if (!written && written.error().fault == DiskFault::no_space) {
    sometimes<"journal: the disk is full in the middle of a segment">();
    // The failed write may have left intact frames. Behind frames that are written later, they would be read as newer.
    const auto cut = active_file_->truncate(tail());
    if (!cut) return state_unknown(cut.error());
    active_capacity_ = tail();
  }
  if (!written) return written;
  segments_.back().end += frames.size();
  active_capacity_ = std::max(active_capacity_, tail());
  return {};
}

DiskResult<void> SegmentLog::sync() {
  const auto done = active_file_->sync();
  sometimes<"journal: a sync failed">(!done);
  // After any failed sync, even on a full disk, the state on disk is unknown.
  if (!done) return state_unknown(done.error());
  durable_up_to_ = tail();
  return {};
}

void SegmentLog::synced(const Unsynced& done) {
  if (done.segment == active()) durable_up_to_ = std::max(durable_up_to_, done.up_to);
}

Address SegmentLog::address(Place place) const {
  return {.segment = segments_[index_of(place.segment())].number, .offset = place.offset()};
}

Pinned SegmentLog::pin(Place place) const {
  const Segment& segment = segments_[index_of(place.segment())];
  Pinned pinned{.address = address(place),
                .about_size = place.about_size(),
                .segment_end = segment.end,
                .salt = segment.salt,
                .file = {}};
  if (segment.number == active() && active_file_ != nullptr) {
    pinned.file = active_file_;
  } else if (const auto known = std::ranges::find(opened_, segment.number, &Opened::number); known != opened_.end()) {
    pinned.file = known->file;
  }
  return pinned;
}

void SegmentLog::keep_open(const Pinned& pinned) {
  const SegmentNumber number = pinned.address.segment;
  const bool dropped = number < oldest().number;
  if (pinned.file == nullptr || dropped || number == active()) return;
  if (std::ranges::find(opened_, number, &Opened::number) != opened_.end()) return;
  if (opened_.size() == most_opened) opened_.pop_front();
  opened_.push_back({.number = number, .file = pinned.file});
}

std::size_t SegmentLog::index_of(SegmentOrdinal ordinal) const {
  const std::uint32_t number = std::to_underlying(ordinal) + before_first_;
  const std::size_t at = number - std::to_underlying(segments_.front().number);
  ONCE_ASSERT(at < segments_.size());
  return at;
}

void SegmentLog::count_live(Place place, int by) {
  Segment& counted = segment(place.segment());
  counted.live += static_cast<std::uint64_t>(by);
  counted.live_bytes += static_cast<std::uint64_t>(by) * place.about_size();
}

void SegmentLog::count_chunk(Place place, int by) {
  Segment& counted = segment(place.segment());
  counted.chunks += static_cast<std::uint64_t>(by);
  counted.chunk_bytes += static_cast<std::uint64_t>(by) * place.about_size();
}

DiskResult<void> SegmentLog::drop_oldest() {
  ONCE_ASSERT(has_sealed() && !oldest().is_needed());
  const SegmentNumber number = oldest().number;
  std::erase_if(opened_, [number](const Opened& each) { return each.number == number; });
  // Strictly in order: a later segment gone before an earlier one would look like damage.
  if (auto removed = disk_.remove(segment_name(number)); !removed) return removed;
  if (const auto synced = disk_.sync_names(); !synced) return state_unknown(synced.error());
  sealed_bytes_ -= oldest().end;
  segments_.pop_front();
  return {};
}

}  // namespace once::journal
