#include "store/journal/scan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

namespace once::journal {

namespace {

constexpr std::uint64_t read_size = std::uint64_t{1} << 20U;

// nullopt: it is damaged. An intact header of another version is an error instead, so that a repair does not set the
// segment aside.
DiskResult<std::optional<SegmentHeader>> read_header(File& file, const std::string& path) {
  std::array<char, header_size> bytes{};
  const auto got = file.read_at(0, bytes);
  if (!got) return std::unexpected(got.error());
  const std::string_view read(bytes.data(), *got);
  const auto header = decode_header(read);
  if (header) return *header;
  if (header.error() == HeaderFault::damaged) return std::nullopt;
  if (header.error() == HeaderFault::older_version) {
    const std::uint8_t writer = writer_of(read);
    return std::unexpected(
        DiskError{.detail = fmt::format(
                      "{}: written in version {} of the journal's format, and this program reads {} and {}: run "
                      "the version of Once in between until the records in this file have expired",
                      path, writer == 0 ? "1 or 2" : fmt::to_string(writer), oldest_version, format_version)});
  }
  return std::unexpected(DiskError{
      .detail = fmt::format("{}: written by a newer version of Once; it needs version {} of the journal's format, and "
                            "this program knows up to {}",
                            path, needed_version(read), format_version)});
}

// A quick check, before a checksum is computed over megabytes of possible garbage.
constexpr std::uint64_t least_frame_size = mark_frame_size;
bool may_be_kind(char byte) {
  const auto kind = static_cast<std::uint8_t>(byte);
  const bool known = kind >= std::to_underlying(Kind::put) && kind <= std::to_underlying(Kind::mark);
  return known || is_optional(kind);
}

// Reads headers and sizes. A segment with an invalid header is reported and left out.
DiskResult<Chain> read_headers(Disk& disk) {
  auto names = disk.list();
  if (!names) return std::unexpected(names.error());
  std::ranges::sort(*names);
  Chain chain;
  for (const std::string& name : *names) {
    if (name == spare_name) chain.obsolete.push_back(name);
    const auto number = parse_segment_name(name);
    if (!number) continue;
    auto file = disk.open(name, Access::read);
    if (!file) return std::unexpected(file.error());
    const auto size = (*file)->size();
    if (!size) return std::unexpected(size.error());
    const auto header = read_header(**file, disk.path_of(name));
    if (!header) return std::unexpected(header.error());
    if (!*header) {
      chain.damage.push_back({.file = disk.path_of(name), .what = "the header is damaged"});
    } else if ((*header)->number != *number) {
      chain.damage.push_back({.file = disk.path_of(name), .what = "the header has the number of another segment"});
    } else {
      chain.segments.push_back({.name = name, .header = **header, .end = *size, .file_size = *size});
    }
  }
  return chain;
}

// Whether a mark after `from` shows that `from` was on disk, and how many nonzero bytes follow it.
struct Behind {
  bool was_durable = false;
  std::uint64_t bytes = 0;  // up to the last nonzero byte
};
DiskResult<Behind> look_behind(File& file, std::uint32_t salt, std::uint64_t from, std::uint64_t end) {
  Behind behind;
  std::string buffer;
  for (std::uint64_t at = from; at < end;) {
    buffer.resize(std::min(read_size, end - at));
    const auto got = file.read_at(at, buffer);
    if (!got) return std::unexpected(got.error());
    if (*got == 0) break;
    const std::string_view bytes = std::string_view(buffer).substr(0, *got);
    if (const auto last = bytes.find_last_not_of('\0'); last != std::string_view::npos)
      behind.bytes = at + last + 1 - from;
    for (std::size_t i = 0; i + mark_frame_size <= bytes.size(); i += frame_alignment) {
      if (claimed_frame_size(bytes.substr(i)) != mark_frame_size) continue;
      const auto payload = decode_frame(bytes.substr(i, mark_frame_size), salt);
      if (!payload) continue;
      const auto seen = glance(*payload);
      if (seen && seen->kind == Kind::mark && seen->durable_up_to > from) {
        behind.was_durable = true;
        return behind;
      }
    }
    if (*got < mark_frame_size) break;
    // A mark may cross the border of two reads.
    const std::uint64_t step = *got - (at + *got < end ? mark_frame_size : 0);
    at += std::max<std::uint64_t>(frame_alignment, step / frame_alignment * frame_alignment);
  }
  return behind;
}

}  // namespace

std::string to_text(const Damage& damage) {
  return fmt::format("{}, offset {}: {}", damage.file, damage.offset, damage.what);
}

DiskResult<Chain> read_chain(Disk& disk) {
  auto chain = read_headers(disk);
  if (!chain) return chain;
  auto& segments = chain->segments;
  // Ignore what a repair or an interrupted drop left before the newest beginning.
  const auto begin = std::find_if(segments.rbegin(), segments.rend(),
                                  [](const SegmentFile& each) { return each.header.previous_end == 0; });
  if (begin != segments.rend()) {
    const auto first = begin.base() - 1;
    for (auto old = segments.begin(); old != first; ++old) chain->obsolete.push_back(old->name);
    // Ignore unreadable ones too, but remove them, or they would be found again without this beginning.
    std::erase_if(chain->damage, [&](const Damage& damage) {
      if (damage.file >= disk.path_of(first->name)) return false;
      chain->obsolete.push_back(damage.file.substr(damage.file.rfind('/') + 1));
      return true;
    });
    segments.erase(segments.begin(), first);
  }
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
    SegmentFile& segment = segments[i];
    const SegmentFile& after = segments[i + 1];
    const auto expected = std::to_underlying(segment.header.number) + 1;
    if (std::to_underlying(after.header.number) != expected) {
      const std::string missing = disk.path_of(segment_name(SegmentNumber{expected}));
      if (std::ranges::none_of(chain->damage, [&](const Damage& damage) { return damage.file == missing; })) {
        chain->damage.push_back({.file = missing, .what = "the segment is missing"});
      }
    } else {
      segment.end = after.header.previous_end;
    }
    if (after.header.journal != segment.header.journal) {
      chain->damage.push_back({.file = disk.path_of(after.name), .what = "the segment belongs to another journal"});
    }
  }
  if (!segments.empty()) segments.back().last = true;
  return chain;
}

DiskResult<Chain> read_chain_to(Disk& disk, std::string_view note) {
  auto chain = read_chain(disk);
  const auto end = parse_note(note);
  if (!chain || !end) return chain;
  const auto last = chain->segments.empty() ? SegmentNumber{} : chain->segments.back().header.number;
  if (last == end->segment) {
    chain->segments.back().end = end->offset;
    chain->segments.back().last = false;
  } else if (last < end->segment) {
    chain->damage.push_back({.file = disk.path_of(segment_name(end->segment)), .what = "the segment is missing"});
  }
  return chain;
}

DiskResult<std::string_view> SegmentScan::peek(std::uint64_t size) {
  size = std::min(size, end_ - offset_);
  if (offset_ < buffer_begin_ || offset_ + size > buffer_begin_ + buffer_.size()) {
    buffer_.resize(std::min(std::max(size, read_size), end_ - offset_));
    buffer_begin_ = offset_;
    const auto got = file_.read_at(offset_, buffer_);
    if (!got) return std::unexpected(got.error());
    file_has_ended_ = *got < buffer_.size();
    buffer_.resize(*got);
  }
  return buffered();
}

std::string_view SegmentScan::buffered() const {
  const std::uint64_t end = buffer_begin_ + buffer_.size();
  if (offset_ < buffer_begin_ || offset_ > end) return {};
  return std::string_view(buffer_).substr(offset_ - buffer_begin_);
}

DiskResult<void> SegmentScan::fetch() {
  auto bytes = peek(least_frame_size);
  if (bytes && !is_fetched()) bytes = peek(claimed_frame_size(*bytes));
  if (!bytes) return std::unexpected(bytes.error());
  return {};
}

bool SegmentScan::is_fetched() const {
  const std::uint64_t left = end_ - offset_;
  const std::string_view bytes = buffered();
  if (left == 0 || file_has_ended_) return true;
  if (bytes.size() < std::min(least_frame_size, left)) return false;
  if (left < least_frame_size) return true;
  const std::uint64_t size = claimed_frame_size(bytes);
  return size > left || size <= bytes.size();
}

DiskResult<SegmentScan::Step> SegmentScan::next() {
  if (offset_ == end_) return Step::end;
  auto bytes = peek(least_frame_size);
  if (!bytes) return std::unexpected(bytes.error());
  if (bytes->size() < least_frame_size || !may_be_kind((*bytes)[frame_overhead])) return Step::bad;
  const std::uint64_t size = claimed_frame_size(*bytes);
  if (size > end_ - offset_) return Step::bad;
  bytes = peek(size);
  if (!bytes) return std::unexpected(bytes.error());
  const auto payload = decode_frame(*bytes, salt_);
  if (!payload) return Step::bad;
  const auto seen = glance(*payload);
  if (!seen) return Step::bad;
  frame_ = {.offset = offset_, .size = size, .payload = *payload, .seen = *seen};
  offset_ += size;
  return Step::frame;
}

DiskResult<void> SegmentScan::skip() {
  while (offset_ < end_) {
    offset_ = std::min(offset_ + frame_alignment, end_);
    const std::uint64_t at = offset_;
    const auto step = next();
    if (!step) return std::unexpected(step.error());
    offset_ = at;
    if (*step == Step::frame) return {};
    if (*step == Step::end) return {};
  }
  return {};
}

DiskResult<Walked> walk(Disk& disk, const SegmentFile& segment, OnDamage on_damage,
                        const std::function<void(const Frame&)>& visit) {
  auto file = disk.open(segment.name, Access::read);
  if (!file) return std::unexpected(file.error());
  const std::uint64_t end = std::max<std::uint64_t>(std::min(segment.end, segment.file_size), header_size);
  SegmentScan scan(**file, segment.header.salt, header_size, end);
  Walked walked{.end = header_size, .durable_up_to = header_size};
  for (;;) {
    const auto step = scan.next();
    if (!step) return std::unexpected(step.error());
    if (*step == SegmentScan::Step::end) break;
    if (*step == SegmentScan::Step::frame) {
      const Frame& frame = scan.frame();
      walked.end = frame.offset + frame.size;
      if (frame.seen.kind == Kind::mark) {
        walked.durable_up_to = std::max(walked.durable_up_to, std::min(frame.seen.durable_up_to, walked.end));
      } else if (frame.seen.kind == Kind::put || frame.seen.kind == Kind::remove) {
        ++walked.records;
      }
      visit(frame);
      continue;
    }
    const std::uint64_t bad = scan.offset();
    if (segment.last) {
      const auto behind = look_behind(**file, segment.header.salt, bad, end);
      if (!behind) return std::unexpected(behind.error());
      if (!behind->was_durable) {
        walked.cut = behind->bytes;
        break;
      }
    }
    if (on_damage == OnDamage::stop) {
      walked.damage.push_back({.file = disk.path_of(segment.name), .offset = bad, .what = "a record is damaged"});
      break;
    }
    if (const auto skipped = scan.skip(); !skipped) return std::unexpected(skipped.error());
    walked.damage.push_back({.file = disk.path_of(segment.name),
                             .offset = bad,
                             .what = fmt::format("{} bytes are damaged", scan.offset() - bad)});
  }
  if (segment.end > end && (walked.damage.empty() || on_damage == OnDamage::skip)) {
    walked.damage.push_back({.file = disk.path_of(segment.name),
                             .offset = end,
                             .what = fmt::format("{} bytes are missing", segment.end - end)});
  }
  return walked;
}

}  // namespace once::journal
