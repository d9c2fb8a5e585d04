// Searches in the journal, for operators. The index has the state of every record, so a scan for unknown ones reads
// only those from disk. The rest of a record, including tenant and route, is read from its segment, one record at a
// time; lists read only the part before the outcome, without verifying it. Scans follow the order of ids, because slots
// move.
//
// Lock: a shard's, for a few thousand slots at a time; the writer's for a moment to find where a record is. None while
// it reads. Any thread may call it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "store/journal/core.hpp"
#include "store/journal/disk.hpp"
#include "store/journal/frame_reader.hpp"
#include "store/search.hpp"

namespace once::journal {

class JournalSearch final : public Search {
 public:
  explicit JournalSearch(Core& core) : core_(core) {}

  Result<KeyPage> scan(const KeyFilter& filter, std::string_view cursor, std::size_t limit) override;
  Result<KeyPage> find(const IdPrefix& prefix) override;
  Result<KeyCounts> count(std::string_view cursor) override;

 private:
  // The data of a slot.
  struct Candidate {
    std::size_t shard = 0;
    std::uint64_t bits = 0;  // the first bits of the id, from which a scan continues
    std::array<std::uint8_t, SlotTable::tag_size> tag{};
  };
  std::vector<Candidate> candidates(std::size_t shard, std::uint64_t from, std::uint64_t to, const KeyFilter& filter,
                                    Time now) const;
  // The location of a record.
  struct Located {
    Pinned from;
    bool live = false;
  };
  std::optional<Located> locate(const Candidate& candidate) const;
  enum class Part : std::uint8_t { head, whole };
  DiskResult<Head> read_part(Pinned& from, std::string& buffer, Part part);
  Result<std::optional<KeyInfo>> read_info(const Candidate& candidate, std::string& buffer, Part part, Time now);

  Core& core_;
};

}  // namespace once::journal
