// The settings of a journal: journal.* in docs/reference/configuration/stores.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace once::journal {

enum class Sync : std::uint8_t {
  always,    // one sync per batch, before callers are answered
  interval,  // every sync_interval: a power loss can lose that much
  never,     // left to the operating system
};

struct JournalSettings {
  Sync sync = Sync::always;
  Duration sync_interval = std::chrono::seconds(1);
  std::size_t segment_bytes = std::size_t{64} << 20U;
  Duration segment_age = std::chrono::hours(1);    // a segment ends after this, so that it can expire
  std::size_t max_disk = std::size_t{10} << 30U;   // all files together
  std::size_t max_memory = std::size_t{1} << 30U;  // index and cache
  // part of max_memory, for records that are answered without the disk
  std::size_t cache_bytes = std::size_t{64} << 20U;
  unsigned recovery_threads = 2;
  // After this many segments the index numbers them from the oldest existing one again. Only tests set it, because they
  // cannot write that many.
  std::uint32_t count_anew_after = std::uint32_t{1} << 23U;
};

}  // namespace once::journal
