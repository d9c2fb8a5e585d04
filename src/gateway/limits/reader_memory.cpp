#include "gateway/limits/reader_memory.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace once::gateway {

std::optional<ReaderMemory::Room> ReaderMemory::take(const TenantTag& caller, std::size_t bytes,
                                                     std::size_t max_body_memory) {
  const std::scoped_lock lock(mutex_);
  const std::size_t most = max_body_memory / 2;
  const std::size_t left = most - std::min(most, held_);
  const auto own = held_by_.find(caller);
  const std::size_t needed = bytes + (own != held_by_.end() ? own->second : 0);
  if (held_ > 0 && needed > left) return std::nullopt;
  // Readers need little, and refusing one would disconnect a client in the middle: they may use half of the reserve for
  // recording too.
  if (!usage_.take(HeldFor::replay, bytes, max_body_memory + max_body_memory / 8)) return std::nullopt;
  held_ += bytes;
  held_by_[caller] = needed;
  return Room(*this, caller, bytes);
}

void ReaderMemory::give_back(const TenantTag& caller, std::size_t bytes) {
  usage_.give_back(HeldFor::replay, bytes);
  const std::scoped_lock lock(mutex_);
  const auto own = held_by_.find(caller);
  ONCE_ASSERT(own != held_by_.end() && own->second >= bytes && held_ >= bytes);
  held_ -= bytes;
  own->second -= bytes;
  if (own->second == 0) held_by_.erase(own);
}

}  // namespace once::gateway
