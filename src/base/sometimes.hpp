// Branches that a test has to reach to mean anything: the simulator counts how often each was taken, and reports those
// that no seed has taken.
//
//   sometimes<"lease: lost to another owner">(renewal.status == OpStatus::lost);
//   sometimes<"stream: abandoned">();  // in the branch itself
//
// Every process that does not count, so every gateway, only reads one flag that never changes. Use it on branches that
// are rare all the same. Not for statistics: operators have metrics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/layers.hpp"

namespace once::base {

// A text as a template argument.
template <std::size_t Size>
struct BranchName {
  consteval BranchName(const char (&text)[Size]) { std::copy_n(text, Size, letters.begin()); }  // NOLINT: implicit
  constexpr std::string_view view() const { return {letters.data(), Size - 1}; }

  std::array<char, Size> letters{};
};

// One branch. All of them are listed when the program starts, also those that are never taken.
class Branch {
 public:
  explicit Branch(std::string_view name) noexcept;
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;

  void take() noexcept { taken_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend class Branches;

  const std::string_view name_;
  Branch* const next_;
  std::atomic<std::uint64_t> taken_{0};
};

// All branches of the program, on all threads.
class Branches {
 public:
  struct Count {
    std::string_view name;
    std::uint64_t taken = 0;
  };

  // From now on they are counted.
  static void count() noexcept { counting.store(true, std::memory_order_relaxed); }
  static bool counted() noexcept { return counting.load(std::memory_order_relaxed); }
  // By name.
  static std::vector<Count> counts();

 private:
  friend class Branch;

  inline static constinit std::atomic<bool> counting{false};
  inline static constinit Branch* first_listed = nullptr;
};

template <BranchName Name>
inline Branch branch{Name.view()};

template <BranchName Name>
void sometimes(bool taken = true) {
  if (taken && Branches::counted()) [[unlikely]]
    branch<Name>.take();
}

}  // namespace once::base
