#include "base/sometimes.hpp"

#include <utility>

namespace once::base {

Branch::Branch(std::string_view name) noexcept : name_(name), next_(std::exchange(Branches::first_listed, this)) {}

std::vector<Branches::Count> Branches::counts() {
  std::vector<Count> counts;
  for (const Branch* each = first_listed; each != nullptr; each = each->next_) {
    counts.push_back({.name = each->name_, .taken = each->taken_.load(std::memory_order_relaxed)});
  }
  std::ranges::sort(counts, {}, &Count::name);
  return counts;
}

}  // namespace once::base
