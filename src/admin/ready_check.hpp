// The values of the setting readyz.checks.
#pragma once

#include <cstdint>

#include "base/layers.hpp"

namespace once::admin {

enum class ReadyCheck : std::uint8_t {
  store,        // it answers
  descriptors,  // descriptors are free for connections of clients and to backends
  room,         // the store accepts new keys
  upstreams,    // some upstream has a server that is up
};

}  // namespace once::admin
