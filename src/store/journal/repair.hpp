// Looking after a journal that no gateway has open: is it whole, and if not, what can be kept of it.
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
  std::uint64_t cut = 0;  // of the last one: left of a torn write, which is no damage
  std::vector<Damage> damage;
};

struct Report {
  std::uint64_t segments = 0;
  std::uint64_t records = 0;
  std::vector<Damage> damage;
};

// Called for each segment when it has been read.
using OnSegment = std::function<void(const SegmentReport&)>;

// Reads everything and changes nothing.
Result<Report> verify(Disk& disk, const OnSegment& on_segment);

// Copies every record that is whole into new segments, which then take the place of the old ones. Files with damage are
// kept under their name with .damaged behind it; a journal without damage is left as it is. Interrupted at any point,
// it can be run again.
Result<Report> repair(Disk& disk, const Clock& clock, Random& random, const OnSegment& on_segment);

}  // namespace once::journal
