// The tag of whoever asked last on a connection. Most connections have one caller, and to compare is cheaper than to
// hash.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/operation.hpp"

namespace once::gateway {

class TenantMemo {
 public:
  // Longer callers are hashed every time: there may be thousands of connections that keep one each.
  static constexpr std::size_t most_bytes = 512;

  // Good until the next call.
  const TenantTag& of(const OperationIds& ids, std::span<const std::string_view> caller) {
    if (!is_last(caller)) {
      tag_ = ids.tenant(caller);
      keep(caller);
    }
    return tag_;
  }

 private:
  // Parts are kept one by one, so that ("ab", "c") is not ("a", "bc").
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
      // Never in a header, a cookie, a certificate's subject or a claim that was taken; if it were, it is not kept.
      if (last_.size() + part.size() >= most_bytes || part.contains(end_of_part)) return;
      last_.append(part).push_back(end_of_part);
    }
    count_ = caller.size();
  }

  static constexpr char end_of_part = '\0';

  std::string last_;
  std::size_t count_ = 0;  // 0: nobody is kept
  TenantTag tag_{};
};

}  // namespace once::gateway
