// The values of the setting readyz.checks.
#pragma once

#include <cstdint>

#include "base/layers.hpp"

namespace once::admin {

enum class ReadyCheck : std::uint8_t {
  store,        // it answers
  descriptors,  // connections could be accepted, and made to backends
  room,         // the store takes new keys
  upstreams,    // one of them has a server that is up
};

}  // namespace once::admin
