// The part of /metrics about the store and its lanes.
#pragma once

#include "base/layers.hpp"

namespace once::admin {

class Exposition;
struct AdminSources;

void write_store_metrics(Exposition& out, const AdminSources& sources);

}  // namespace once::admin
