// Branches that a test has to reach to mean anything: the simulator counts how often each was taken, and reports those
// that no seed has taken.
//
//   sometimes<"lease: lost to another owner">(renewal.status == OpStatus::lost);
//   sometimes<"stream: abandoned">();  // in the branch itself
//
// A process that does not count, such as every gateway, only reads a flag that never changes. Even so, use this on rare
// branches only. It is not for statistics: operators have metrics.
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
template <std::size_t size>
struct BranchName {
  consteval BranchName(const char (&text)[size]) { std::copy_n(text, size, letters.begin()); }  // NOLINT: implicit
  constexpr std::string_view view() const { return {letters.data(), size - 1}; }

  std::array<char, size> letters{};
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

  // Starts counting, for all branches.
  static void count() noexcept { counted_.store(true, std::memory_order_relaxed); }
  static bool counted() noexcept { return counted_.load(std::memory_order_relaxed); }
  // The counts of all branches, sorted by name.
  static std::vector<Count> counts();

 private:
  friend class Branch;

  inline static constinit std::atomic<bool> counted_{false};
  inline static constinit Branch* first_ = nullptr;
};

template <BranchName name>
inline Branch branch{name.view()};

template <BranchName name>
void sometimes(bool taken = true) {
  if (taken && Branches::counted()) [[unlikely]]
    branch<name>.take();
}

}  // namespace once::base
