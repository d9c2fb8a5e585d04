// Verifies and repairs a journal that no gateway has open.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/scan.hpp"

namespace once::journal {

struct SegmentReport {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  std::uint64_t cut = 0;  // of the last segment: the rest of a torn write, which is no damage
  bool end_is_known = true;
  std::vector<Damage> damage;
};

struct Report {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;
  std::vector<Damage> damage;
};

// Called after each segment.
using OnSegment = std::function<void(const SegmentReport&)>;

// Reads everything and changes nothing.
Result<Report> verify(Disk& disk, const OnSegment& on_segment);

// Copies every intact record into new segments, which then replace the old ones. Damaged files are kept with .damaged
// appended to their name. A journal without damage is not changed. If interrupted, it can be run again.
Result<Report> repair(Disk& disk, const Clock& clock, Random& random, const OnSegment& on_segment);

}  // namespace once::journal
