// Caches the tag of a connection's last caller. Most connections have one caller, and comparing is cheaper than
// hashing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/operation.hpp"

namespace once::gateway {

class TenantMemo {
 public:
  // Longer callers are hashed every time, because thousands of connections may each keep one.
  static constexpr std::size_t most_bytes = 512;

  // Valid until the next call.
  const TenantTag& of(const OperationIds& ids, std::span<const std::string_view> caller) {
    if (!is_last(caller)) {
      tag_ = ids.tenant(caller);
      keep(caller);
    }
    return tag_;
  }

 private:
  // Parts are stored separately, so that ("ab", "c") differs from ("a", "bc").
  bool is_last(std::span<const std::string_view> caller) const {
    if (caller.size() != count_ || count_ == 0) return false;
    std::string_view rest = last_;
    for (const std::string_view part : caller) {
      if (!rest.starts_with(part) || rest.size() == part.size() || rest[part.size()] != end_of_part) return false;
      rest.remove_prefix(part.size() + 1);
    }
    return rest.empty();
  }

  void keep(std::span<const std::string_view> caller) {
    last_.clear();
    count_ = 0;
    for (const std::string_view part : caller) {
      // No accepted header, cookie, certificate subject or claim contains this; if one did, it is not cached.
      if (last_.size() + part.size() >= most_bytes || part.contains(end_of_part)) return;
      last_.append(part).push_back(end_of_part);
    }
    count_ = caller.size();
  }

  static constexpr char end_of_part = '\0';

  std::string last_;
  std::size_t count_ = 0;  // 0: nothing is cached
  TenantTag tag_{};
};

}  // namespace once::gateway
