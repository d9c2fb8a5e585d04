#include "gateway/limits/holder_shares.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace once::gateway {

Reserved HolderShares::take(const TenantTag& holder, std::size_t bytes, std::size_t most) {
  const std::scoped_lock lock(mutex_);
  const std::size_t left = most - std::min(most, held_);
  const auto own = held_by_.find(holder);
  const std::size_t needed = bytes + (own != held_by_.end() ? own->second : 0);
  if (held_ > 0 && needed > left) return Reserved::no;
  held_ += bytes;
  held_by_[holder] = needed;
  return Reserved::yes;
}

void HolderShares::give_back(const TenantTag& holder, std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto own = held_by_.find(holder);
  ONCE_ASSERT(own != held_by_.end() && own->second >= bytes && held_ >= bytes);
  held_ -= bytes;
  own->second -= bytes;
  if (own->second == 0) held_by_.erase(own);
}

}  // namespace once::gateway
