// Raises the limit of file descriptors, and limits client connections to what the descriptors allow.
#pragma once

#include <cstddef>

#include "config/config.hpp"

namespace once::cli {

// Raises the soft limit to the hard one. Returns the limit that holds.
std::size_t raise_descriptor_limit();

// Open now.
std::size_t descriptors_in_use();

// What the process has to share out.
struct DescriptorBudget {
  std::size_t limit = 0;
  std::size_t in_use = 0;  // when it begins to serve: files of the store, event loops, listeners, logs
};

struct ConnectionLimit {
  std::size_t connections = 0;  // from clients
  std::size_t needed = 0;       // descriptors for limits.max_connections as it is written, if there are fewer; else 0
};

// `auto` takes what there is. A number that is written is taken as far as possible, and `needed` says if it is too high
// for each client connection to have one to a backend.
ConnectionLimit connection_limit(const Config& config, const DescriptorBudget& budget);

}  // namespace once::cli
