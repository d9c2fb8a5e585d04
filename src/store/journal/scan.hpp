// Reads segments from end to end: lists them, checks that they belong together, and visits every frame. Used by
// recovery, `once journal verify` and `once journal repair`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "store/journal/disk.hpp"
#include "store/journal/format.hpp"

namespace once::journal {

// Data that was certainly on disk and has changed.
struct Damage {
  std::string file;
  std::uint64_t offset = 0;
  std::string what;
};
std::string to_text(const Damage& damage);

struct SegmentFile {
  std::string name;
  SegmentHeader header;
  std::uint64_t end = 0;  // for the last segment: the size of its file
  std::uint64_t file_size = 0;
  bool last = false;  // may end in a torn write
};

// The valid segments, oldest first.
struct Chain {
  std::vector<SegmentFile> segments;
  std::vector<std::string> obsolete;  // files that an interrupted repair, drop or roll left behind
  std::vector<Damage> damage;
};
DiskResult<Chain> read_chain(Disk& disk);
// `note` is what the last process left (Disk::note() before the lock). If that stopped cleanly, the last segment is
// read to the end that it noted, and what is missing is damage. Each process begins its own segment, so a note stays
// true whatever a later process loses.
DiskResult<Chain> read_chain_to(Disk& disk, std::string_view note);

struct Frame {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::string_view payload;  // valid until the next frame is read
  Glance seen{};
};

enum class OnDamage : std::uint8_t {
  stop,
  skip,  // continue with the next intact frame
};

struct Walked {
  std::uint64_t end = 0;            // of the last intact frame
  std::uint64_t durable_up_to = 0;  // what the marks in it confirm
  std::uint64_t cut = 0;            // bytes of a torn write after the end
  std::uint64_t records = 0;        // puts and removes
  std::vector<Damage> damage;
};

// Visits every frame.
DiskResult<Walked> walk(Disk& disk, const SegmentFile& segment, OnDamage on_damage,
                        const std::function<void(const Frame&)>& visit);

// One segment, frame by frame, in large reads.
class SegmentScan {
 public:
  SegmentScan(File& file, std::uint32_t salt, std::uint64_t begin, std::uint64_t end)
      : file_(file), salt_(salt), offset_(begin), end_(end) {}

  enum class Step : std::uint8_t { frame, end, bad };
  DiskResult<Step> next();
  // Reads ahead. While is_fetched() is true, next() does not read from disk.
  DiskResult<void> fetch();
  bool is_fetched() const;
  // After `bad`: skips to the next intact frame, or to the end.
  DiskResult<void> skip();

  const Frame& frame() const { return frame_; }
  std::uint64_t offset() const { return offset_; }  // of what next() looks at
  bool at_end() const { return offset_ == end_; }

 private:
  // The buffered bytes from the offset on.
  std::string_view buffered() const;
  // The bytes at the offset: at least `size`, unless the file or the segment ends before.
  DiskResult<std::string_view> peek(std::uint64_t size);

  File& file_;
  const std::uint32_t salt_;
  std::uint64_t offset_;
  const std::uint64_t end_;
  std::string buffer_;
  std::uint64_t buffer_begin_ = 0;
  bool file_has_ended_ = false;  // before the segment does
  Frame frame_;
};

}  // namespace once::journal
