// Asking around: which server is the master, and which node of a cluster has which slots. Each call uses connections of
// its own; an error that says Retryable::no does not mend itself.
#pragma once

#include <span>

#include "store/redis/cluster.hpp"
#include "store/redis/node.hpp"

namespace once::redis {

// The first of the hosts that says it is a master.
Result<Layout> find_master(const Context& context, Deadline deadline);

// The master that the first sentinel who knows one names.
Result<Layout> ask_sentinels(const Context& context, Deadline deadline);

// What the first of these nodes that answers knows.
Result<Layout> ask_cluster(const Context& context, std::span<const StoreHost> nodes, Deadline deadline);

}  // namespace once::redis
