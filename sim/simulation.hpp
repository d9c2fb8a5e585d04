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
  std::vector<std::string> trace;  // only on request
  std::uint64_t trace_hash = 0;    // over all of it, whether kept or not
  std::uint64_t executions = 0;
  std::uint64_t replays = 0;
  std::uint64_t crashes = 0;
  std::uint64_t chunks = 0;   // of streams, as readers saw them
  std::uint64_t by_hand = 0;  // changes made by operators
  // At the byte layer: parts of keyed responses that gateways sent, readers that resumed, and streams that were never
  // completed.
  std::uint64_t parts = 0;
  std::uint64_t resumed = 0;
  std::uint64_t cut_off = 0;
  // Streams stopped by their callers, and replays of them.
  std::uint64_t stopped = 0;
  std::uint64_t stopped_replays = 0;
};

enum class KeepTrace : std::uint8_t { no, yes };

// `store` and `layer` as in draw_setup().
Report simulate(std::uint64_t seed, KeepTrace keep_trace = KeepTrace::no, std::optional<StoreKind> store = std::nullopt,
                Layer layer = Layer::exchanges);

}  // namespace once::sim
