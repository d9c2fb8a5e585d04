// Finds the master, or the slots of a cluster's nodes. Each call uses its own connections. An error with Retryable::no
// is permanent.
#pragma once

#include <span>

#include "store/redis/cluster.hpp"
#include "store/redis/node.hpp"

namespace once::redis {

// The first host that reports to be a master.
Result<Layout> find_master(const Context& context, Deadline deadline);

// The master named by the first sentinel that knows one.
Result<Layout> ask_sentinels(const Context& context, Deadline deadline);

// The layout known to the first node that answers.
Result<Layout> ask_cluster(const Context& context, std::span<const StoreHost> nodes, Deadline deadline);

}  // namespace once::redis
