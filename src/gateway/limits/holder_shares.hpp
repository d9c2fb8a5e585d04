// Shares of a common amount, such as memory: no holder may take more than what is left for the others. Holders are
// proven callers and addresses (RequestIdentity::holder()). Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "base/reserved.hpp"
#include "core/operation.hpp"

namespace once::gateway {

class HolderShares {
 public:
  // Reserves bytes, unless the holder would then have more than is left of `most` for the others. While nothing
  // is reserved, any amount is granted.
  Reserved take(const TenantTag& holder, std::size_t bytes, std::size_t most);
  void give_back(const TenantTag& holder, std::size_t bytes);

 private:
  std::mutex mutex_;
  std::size_t held_ = 0;
  std::map<TenantTag, std::size_t> held_by_;  // never 0
};

}  // namespace once::gateway
