#include "store/journal/segment_log.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/assert.hpp"

namespace once::journal {

namespace {

// The first segment is small, so that a start is quick and a quiet gateway takes little; each one that fills up makes
// the next twice as large.
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

std::unexpected<DiskError> nothing_is_known(const DiskError& error) {
  return std::unexpected(DiskError{.fault = DiskFault::failed, .detail = error.detail});
}

}  // namespace

void SegmentLog::add(const Segment& segment) {
  ONCE_ASSERT(segments_.empty() ||
              std::to_underlying(segment.number) == std::to_underlying(segments_.back().number) + 1);
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
  const std::uint64_t wanted = filled_up ? std::min(active_capacity_ * 2, limits_.segment_bytes)
                                         : std::clamp(active_capacity_, first, limits_.segment_bytes);
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
    [[maybe_unused]] const auto removed = disk.remove(spare_name);  // gives back what it took; the error says why
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
    const auto cut = spare_.file->truncate(spare_.capacity);  // it is good as it was
    return cut ? filled : nothing_is_known(cut.error());
  }
  if (const auto synced = spare_.file->sync(); !synced) return nothing_is_known(synced.error());
  spare_.capacity = size;
  return {};
}

DiskResult<void> SegmentLog::roll(const Beginning& beginning, const Fill& fill) {
  if (active_file_ != nullptr && durable_up_to_ < tail()) {
    if (auto done = sync(); !done) return done;
  }
  ONCE_ASSERT(has_spare());
  const std::uint32_t number = segments_.empty() ? 1 : std::to_underlying(segments_.back().number) + 1;
  ONCE_ASSERT(number <= Place::last_segment);
  SegmentHeader header{.journal = beginning.journal,
                       .number = SegmentNumber{number},
                       .previous_end = segments_.empty() ? 0 : tail(),
                       .last_fence = beginning.last_fence,
                       .created_at = beginning.now};
  std::string bytes = encode(header);
  if (fill) fill(header, bytes);
  return begin_segment(header, bytes);
}

DiskResult<void> SegmentLog::begin_segment(const SegmentHeader& header, const std::string& bytes) {
  DiskResult<void> done = spare_.file->write_at(0, bytes);
  if (done) done = spare_.file->sync();
  if (!done) {
    spare_ = Spare();  // whatever became of it, another one has to be made
    return done;
  }
  done = disk_.rename(spare_name, segment_name(header.number));
  if (done) done = disk_.sync_names();
  if (!done) {
    // It may have its name, and then it says that the one before it ends here: nothing may be appended to that now.
    return nothing_is_known(done.error());
  }
  if (active_file_ != nullptr) {
    // Only to give back what was not used; where it ends is in the new header.
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
    // Whole frames may be among what was written. Behind the next ones they would be read as newer than those.
    const auto cut = active_file_->truncate(tail());
    if (!cut) return nothing_is_known(cut.error());
    active_capacity_ = tail();
  }
  if (!written) return written;
  segments_.back().end += frames.size();
  active_capacity_ = std::max(active_capacity_, tail());
  return {};
}

DiskResult<void> SegmentLog::sync() {
  const auto done = active_file_->sync();
  // Whatever the reason, even a full disk: what is there now is not known.
  if (!done) return nothing_is_known(done.error());
  durable_up_to_ = tail();
  return {};
}

void SegmentLog::synced(const Unsynced& done) {
  if (done.segment == active()) durable_up_to_ = std::max(durable_up_to_, done.up_to);
}

DiskResult<File*> SegmentLog::file_for(SegmentNumber number) {
  if (number == active() && active_file_ != nullptr) return active_file_.get();
  const auto known = std::ranges::find(opened_, number, &Opened::number);
  if (known != opened_.end()) return known->file.get();
  auto file = disk_.open(segment_name(number), Access::read);
  if (!file) return std::unexpected(file.error());
  if (opened_.size() == most_opened) opened_.pop_front();
  opened_.push_back({.number = number, .file = std::move(*file)});
  return opened_.back().file.get();
}

DiskResult<std::string_view> SegmentLog::read(Place place, std::string& buffer) {
  const auto file = file_for(place.segment());
  if (!file) return std::unexpected(file.error());
  // About its size is enough for nearly all of them; the frame itself says it exactly.
  buffer.resize(place.about_size() + place.about_size() / 8);
  std::size_t size = 0;
  for (;;) {
    const auto got = (*file)->read_at(place.offset() + size, std::span(buffer).subspan(size));
    if (!got) return std::unexpected(got.error());
    size += *got;
    if (size < frame_overhead) break;
    const std::uint64_t whole = claimed_frame_size(buffer);
    if (whole <= size || *got == 0 || whole > segment(place.segment()).end - place.offset()) break;
    buffer.resize(whole);
  }
  const auto payload = decode_frame(std::string_view(buffer).substr(0, size), segment(place.segment()).salt);
  if (!payload) return std::unexpected(damaged_at(place));
  return *payload;
}

DiskResult<SegmentLog::Head> SegmentLog::read_head(Place place, std::string& buffer) {
  const auto file = file_for(place.segment());
  if (!file) return std::unexpected(file.error());
  buffer.resize(largest_put_overhead + largest_labels);
  std::size_t size = 0;
  while (size < buffer.size()) {
    const auto got = (*file)->read_at(place.offset() + size, std::span(buffer).subspan(size));
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    size += *got;
  }
  if (size < frame_overhead || claimed_frame_size(buffer) > segment(place.segment()).end - place.offset()) {
    return std::unexpected(damaged_at(place));
  }
  std::uint32_t length = 0;
  std::memcpy(&length, buffer.data(), sizeof length);
  return Head{.payload = std::string_view(buffer).substr(0, size).substr(frame_overhead, length), .size = length};
}

DiskError SegmentLog::damaged_at(Place place) const {
  return {.fault = DiskFault::failed,
          .detail = fmt::format("{}, offset {}: a record is damaged", disk_.path_of(segment_name(place.segment())),
                                place.offset())};
}

Segment& SegmentLog::segment(SegmentNumber number) {
  const std::size_t at = std::to_underlying(number) - std::to_underlying(segments_.front().number);
  ONCE_ASSERT(at < segments_.size());
  return segments_[at];
}

DiskResult<void> SegmentLog::drop_oldest() {
  ONCE_ASSERT(has_sealed() && oldest().live == 0);
  const SegmentNumber number = oldest().number;
  std::erase_if(opened_, [number](const Opened& each) { return each.number == number; });
  // One after the other for certain: a later one gone before an earlier one would look like damage.
  if (auto removed = disk_.remove(segment_name(number)); !removed) return removed;
  if (const auto synced = disk_.sync_names(); !synced) return nothing_is_known(synced.error());
  sealed_bytes_ -= oldest().end;
  segments_.pop_front();
  return {};
}

}  // namespace once::journal
