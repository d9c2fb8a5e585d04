// Raises the limit of file descriptors, and limits client connections to what the descriptors allow.
#pragma once

#include <cstddef>

#include "config/config.hpp"

namespace once::cli {

// Raises the soft limit to the hard one. Returns the resulting limit.
std::size_t raise_descriptor_limit();

// The number of open descriptors.
std::size_t descriptors_in_use();

// The descriptors of the process.
struct DescriptorBudget {
  std::size_t limit = 0;
  std::size_t in_use = 0;  // at the start of serving: files of the store, event loops, listeners, logs
};

struct ConnectionLimit {
  std::size_t connections = 0;  // from clients
  // the descriptors that the configured limits.max_connections would need, if there are fewer; else 0
  std::size_t needed = 0;
};

// For `auto`, all that is available. A configured number is used as far as possible, and `needed` is set if there are
// too few descriptors for each client connection to have one to a backend.
ConnectionLimit connection_limit(const Config& config, const DescriptorBudget& budget);

}  // namespace once::cli
