#include "store/journal/frame_reader.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "store/journal/format.hpp"

namespace once::journal {

DiskResult<std::size_t> FrameReader::read_up_to(std::uint64_t size) {
  if (pinned_.file == nullptr) {
    auto opened = disk_.open(segment_name(pinned_.address.segment), Access::read);
    if (!opened) return std::unexpected(opened.error());
    pinned_.file = std::move(*opened);
  }
  if (size <= size_) return 0;
  buffer_.resize(size);
  auto got = pinned_.file->read_at(pinned_.address.offset + size_, std::span(buffer_).subspan(size_));
  if (got) size_ += *got;
  return got;
}

bool FrameReader::fits_segment() const {
  return claimed_frame_size(buffer_) <= pinned_.segment_end - std::min(pinned_.segment_end, pinned_.address.offset);
}

DiskResult<Head> FrameReader::head() {
  const auto got = read_up_to(largest_put_overhead + largest_labels + largest_extra_part);
  if (!got) return std::unexpected(got.error());
  if (size_ < frame_overhead || !fits_segment()) return std::unexpected(damaged());
  std::uint32_t length = 0;
  std::memcpy(&length, buffer_.data(), sizeof length);
  return Head{.payload = std::string_view(buffer_).substr(0, size_).substr(frame_overhead, length), .size = length};
}

DiskResult<std::string_view> FrameReader::whole() {
  // The approximate size is enough for nearly all; the frame itself has the exact one.
  std::uint64_t wanted = size_ < frame_overhead ? pinned_.about_size + pinned_.about_size / 8 : size_;
  for (;;) {
    const auto got = read_up_to(wanted);
    if (!got) return std::unexpected(got.error());
    if (size_ < std::max<std::uint64_t>(wanted, frame_overhead) || !fits_segment()) break;
    wanted = claimed_frame_size(buffer_);
    if (wanted <= size_) break;
  }
  const auto payload = decode_frame(std::string_view(buffer_).substr(0, size_), pinned_.salt);
  if (!payload) return std::unexpected(damaged());
  return *payload;
}

DiskError FrameReader::damaged() const {
  return {.fault = DiskFault::failed,
          .detail = fmt::format("{}, offset {}: a record is damaged",
                                disk_.path_of(segment_name(pinned_.address.segment)), pinned_.address.offset)};
}

}  // namespace once::journal
