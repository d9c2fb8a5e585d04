// Runs one seed, from its setup to the report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/setup.hpp"

namespace once::sim {

struct Report {
  std::vector<std::string> violations;
  std::vector<std::string> trace;  // if asked for
  std::uint64_t trace_hash = 0;    // of all of it, whether kept or not
  std::uint64_t executions = 0;
  std::uint64_t replays = 0;
  std::uint64_t crashes = 0;
  std::uint64_t chunks = 0;   // of streams, as readers saw them
  std::uint64_t by_hand = 0;  // changes that operators made
  // From bytes: parts of keyed responses that gateways sent, readers that were resumed, and streams that were left in
  // the middle for good.
  std::uint64_t parts = 0;
  std::uint64_t resumed = 0;
  std::uint64_t cut_off = 0;
  // Streams that their callers stopped, and replays of what was left of them.
  std::uint64_t stopped = 0;
  std::uint64_t stopped_replays = 0;
};

enum class KeepTrace : std::uint8_t { no, yes };

// `store` and `layer`: as for draw_setup().
Report simulate(std::uint64_t seed, KeepTrace keep_trace = KeepTrace::no, std::optional<StoreKind> store = std::nullopt,
                Layer layer = Layer::exchanges);

}  // namespace once::sim
