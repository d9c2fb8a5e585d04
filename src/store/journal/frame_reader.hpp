// Reads one record from its segment, on any thread and without a lock. That is safe because the bytes of a record do
// not change once the index has its place: segments are written from front to back, and the active one is only
// truncated after the indexed records. A segment may be dropped meanwhile: an open file can still be read. If opening
// fails, the record has moved, and the index has its new place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "store/journal/disk.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

// Where to read, from SegmentLog::pin().
struct Pinned {
  Address address;
  std::uint64_t about_size = 0;
  std::uint64_t segment_end = 0;
  std::uint32_t salt = 0;
  std::shared_ptr<File> file;  // null: not open; the reader opens it
};

// At least the part of the payload before a put's outcome. It is not verified, because the checksum covers the whole
// payload; a large put has a checksum of its head (has_whole_head).
struct Head {
  std::string_view payload;
  std::uint64_t size = 0;  // of the whole payload
};

class FrameReader {
 public:
  // The returned bytes are in `buffer`.
  FrameReader(Disk& disk, Pinned& pinned, std::string& buffer) : disk_(disk), pinned_(pinned), buffer_(buffer) {}

  DiskResult<Head> head();
  // The verified payload. Reuses the bytes that head() has read.
  DiskResult<std::string_view> whole();

 private:
  // Reads up to `size` bytes from the frame's start on. Returns how many were added.
  DiskResult<std::size_t> read_up_to(std::uint64_t size);
  // The size from the frame's own header, which must have been read.
  bool fits_segment() const;
  DiskError damaged() const;

  Disk& disk_;
  Pinned& pinned_;
  std::string& buffer_;
  std::size_t size_ = 0;  // bytes in the buffer
};

}  // namespace once::journal
