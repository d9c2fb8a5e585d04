// The parts of journal_bench.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace once::bench {

struct CompareOptions {
  std::string folder;
  int rounds = 5;
  double seconds = 0.5;  // of every piece
  std::vector<std::uint64_t> batches = {1, 8, 32, 128};
};
void compare(const CompareOptions& options);

struct ScaleOptions {
  std::string folder;
  std::uint64_t few = 10'000;
  std::uint64_t many = 10'000'000;
  std::uint64_t requests = 300'000;  // of every piece
  std::uint64_t batch = 32;
  int rounds = 5;
  int restarts = 3;
};
// False: a budget is not met.
bool scale(const ScaleOptions& options);

struct FillOptions {
  std::string folder;
  std::uint64_t keys = 10'000'000;
};
// Leaves a journal with so many live keys behind, for a gateway to be started on.
void fill_journal(const FillOptions& options);

}  // namespace once::bench
