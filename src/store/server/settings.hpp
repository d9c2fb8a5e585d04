// Settings of the stores with a server: Redis, PostgreSQL and MySQL.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "base/clock.hpp"

namespace once::store {

struct ServerSettings {
  std::size_t connections = 4;  // also the number of lanes
  Duration connect_timeout = std::chrono::seconds(3);
  // For one batch, including connecting and retries. After a timeout it is unknown whether the batch was written; the
  // nonces make a retry safe.
  Duration timeout = std::chrono::seconds(5);
  // PostgreSQL and MySQL: how often expired records are removed, and how many per transaction.
  Duration sweep_every = std::chrono::minutes(1);
  std::size_t sweep_batch = 1000;
  // Redis: how many replicas must have a write before it is reported as done, and how long to wait for them.
  std::size_t wait_replicas = 0;
  Duration wait_timeout = std::chrono::seconds(1);
};

// The time for connecting to one of several hosts, for a call with this deadline (monotonic_now()).
inline Duration time_to_connect(const ServerSettings& settings, std::chrono::nanoseconds until,
                                std::size_t hosts_left) {
  const auto left = std::chrono::ceil<Duration>(until - std::min(until, monotonic_now()));
  return std::min(settings.connect_timeout, left / static_cast<Duration::rep>(hosts_left));
}

}  // namespace once::store
