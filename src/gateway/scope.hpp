// Whose request it is and what its key is bound to: the parts that go into the operation id.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "core/policy.hpp"
#include "http/head.hpp"

namespace once {

// Config allows this many sources of a caller's identity.
inline constexpr std::size_t max_caller_sources = 8;

class ScopeParts {
 public:
  ScopeParts(const Policy& policy, const http::RequestHead& head);
  std::span<const std::string_view> parts() const { return std::span(parts_).first(count_); }

 private:
  void add(std::string_view part) { parts_[count_++] = part; }
  void add_caller(const Policy& policy, const http::RequestHead& head);

  // Each scope part has a mark and a value; a caller has a mark, and for each source whether it is there and what.
  std::array<std::string_view, 2 * max_caller_sources + 8> parts_;
  std::size_t count_ = 0;
};

// The value of the cookie of that name in a Cookie header.
std::optional<std::string_view> find_cookie(std::string_view header, std::string_view name);

}  // namespace once
