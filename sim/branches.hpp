// Which branches of production code (base/sometimes.hpp) the seeds of a run have taken. A branch that the fixed seeds
// of `./test` do not take is listed with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sometimes.hpp"

namespace once::sim {

enum class WhyNot : std::uint8_t {
  not_modelled,  // no seed can take it
  rare,          // few seeds or none do, because the workload makes it unlikely
};
struct Unreachable {
  std::string_view branch;
  WhyNot why = WhyNot::not_modelled;
  std::string_view reason;
};
std::span<const Unreachable> unreachable_branches();

struct BranchReport {
  std::size_t reached = 0;
  std::size_t all = 0;
  std::vector<std::string_view> missing;  // not taken, and not listed
  std::vector<std::string_view> wrong;    // taken although it is not modelled, or no such branch
  std::vector<Branches::Count> counts;    // by name

  // Whether everything that can be reached was reached.
  bool complete() const { return missing.empty() && wrong.empty(); }
};
BranchReport judge_branches(std::vector<Branches::Count> counts, std::span<const Unreachable> unreachable);

// "branches: 103 of 118 reached", and which are missing.
std::string summary_of(const BranchReport& report);
// A line for each branch, with how often it was taken.
std::string details_of(const BranchReport& report, std::span<const Unreachable> unreachable);

}  // namespace once::sim
