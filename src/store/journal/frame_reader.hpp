// Reads one record back from its segment, on any thread and without any lock. That is safe because the bytes
// of a record do not change once the index has its place: segments are written from front to back, and the active one
// is only cut behind what was indexed. A segment may be dropped meanwhile: whoever has its file open still reads it; an
// error before that means that the record has moved, and the index says where to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "store/journal/disk.hpp"
#include "store/journal/slot_table.hpp"

namespace once::journal {

// Where to read, as SegmentLog::pin() says it.
struct Pinned {
  Address address;
  std::uint64_t about_size = 0;
  std::uint64_t segment_end = 0;
  std::uint32_t salt = 0;
  std::shared_ptr<File> file;  // null: not open at the moment; the reader opens it
};

// The payload up to the outcome of a put at least. Its checksum is over all of it, so this is not checked; a large put
// has a sum of its head (has_whole_head).
struct Head {
  std::string_view payload;
  std::uint64_t size = 0;  // of the whole payload
};

class FrameReader {
 public:
  // `buffer` holds the bytes that are returned.
  FrameReader(Disk& disk, Pinned& pinned, std::string& buffer) : disk_(disk), pinned_(pinned), buffer_(buffer) {}

  DiskResult<Head> head();
  // The payload, checked. What head() has read is not read again.
  DiskResult<std::string_view> whole();

 private:
  // Up to `size` bytes of the frame and of what follows. Returns how many were added.
  DiskResult<std::size_t> read_up_to(std::uint64_t size);
  // By what it says itself; there must be as much of it as its overhead.
  bool fits_segment() const;
  DiskError damaged() const;

  Disk& disk_;
  Pinned& pinned_;
  std::string& buffer_;
  std::size_t size_ = 0;  // in the buffer
};

}  // namespace once::journal
