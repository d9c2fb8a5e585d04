// The part of /metrics about the store and its lanes.
#pragma once

#include "base/layers.hpp"

namespace once::store {
class ThreadLanes;
}

namespace once::admin {

class Exposition;

void write_store_metrics(Exposition& out, const ThreadLanes& store);

}  // namespace once::admin
