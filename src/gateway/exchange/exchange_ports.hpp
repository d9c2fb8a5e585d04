// The dependencies of an exchange.
#pragma once

#include <string_view>

#include "base/clock.hpp"
#include "base/executor.hpp"
#include "base/log.hpp"
#include "base/offload.hpp"
#include "base/random.hpp"
#include "gateway/limits/response_memory.hpp"
#include "gateway/metrics.hpp"
#include "gateway/stream/live_stream.hpp"
#include "store/executions.hpp"
#include "store/lane.hpp"
#include "store/waiters.hpp"

namespace once::gateway {

struct ExchangePorts {
  Lanes& store;
  Waiters& waiters;
  Executions& executions;
  Executor& home;
  const Clock& clock;
  Random& random;
  Metrics& metrics;
  const Log& log;
  std::string_view errors_base;
  ResponseMemory* memory = nullptr;  // null: unlimited
  LiveStreams* streams = nullptr;    // null: no response is recorded as it streams
  Offload* offload = nullptr;        // for long computations; null: they run on the loop
};

}  // namespace once::gateway
