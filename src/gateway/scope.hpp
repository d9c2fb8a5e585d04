// Whose request it is and what its key is bound to: the parts that go into the operation id.
#pragma once

#include <array>
#include <cstddef>
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
  // Those that say who asks; empty if nothing does.
  std::span<const std::string_view> caller() const {
    return std::span(parts_).subspan(caller_begin_, caller_given_ ? caller_count_ : 0);
  }

  // A caller's header or cookie that is there twice: which one the backend believes is anyone's guess, and a guess
  // could hand one caller's answer to another. Null if there is none.
  const CallerSource* ambiguous() const { return ambiguous_; }

 private:
  void add(std::string_view part) { parts_[count_++] = part; }
  void add_caller(const Policy& policy, const http::RequestHead& head);

  // Each scope part has a mark and a value; a caller has a mark, and for each source whether it is there and what.
  std::array<std::string_view, 2 * max_caller_sources + 8> parts_;
  std::size_t count_ = 0;
  std::size_t caller_begin_ = 0;
  std::size_t caller_count_ = 0;
  bool caller_given_ = false;
  const CallerSource* ambiguous_ = nullptr;
};

// Values that a request has of one source.
struct FoundSource {
  std::size_t count = 0;
  std::string_view value;  // the last
};

// Cookies of that name in a Cookie header, added to what was found so far.
void find_cookie(std::string_view header, std::string_view name, FoundSource& found);

}  // namespace once
